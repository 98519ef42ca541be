"""Step 2: the secret key, and the evaluation keys that the package asks for."""

from steps import PACKAGE, emptied, places

from penstock.front.hall.computing import package_keys
from penstock.program.package.file import open_package
from penstock.runtime.client import KeyPair
from penstock.runtime.keystore import KeyStore

at = places()
pair = KeyPair.generate(open_package(PACKAGE).params)
pair.save(at.secret)
pair.add_keys(KeyStore(emptied(at.keys)), package_keys(PACKAGE))
