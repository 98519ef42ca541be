"""Step 3: the model was compiled into a package when the submission was built; this says what it is."""

from steps import PACKAGE

from penstock.program.package.file import open_package

package = open_package(PACKAGE)
print(f"         [server] {PACKAGE.name}: {len(package.instructions)} instructions, parameters {package.params.name}")
