#!/bin/bash
# The harness calls this to build the submission: it trains the network on the harness's MNIST once, compiles it into a
# package, and puts the steps where the harness looks for them.
set -euo pipefail
root=$(cd "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
python=${PENSTOCK_PYTHON:-python3}
steps=$root/submission model=$root/model raw=$root/harness/mnist/data/MNIST/raw
"$python" -c 'import penstock, penstock_client' || {
    echo "the submission needs penstock and its client: pip install penstock penstock-client, in \$PENSTOCK_PYTHON" >&2
    exit 1
}
mkdir -p "$model" "$steps/build"
if [ ! -f "$model/mnist.npz" ]; then
    if [ ! -f "$raw/train-images-idx3-ubyte" ] && [ ! -f "$raw/train-images-idx3-ubyte.gz" ]; then
        (cd "$root" && python3 -c 'import sys; sys.path.insert(0, "harness"); from mnist import mnist; mnist.load_and_preprocess_data()')
    fi
    "$python" "$steps/train.py" "$raw" "$model/mnist.npz"
fi
"$python" -c 'import sys; from penstock.front.cli.main import main; sys.exit(main())' \
    package "$steps/network.py" -o "$model/mnist.pkg" --force > "$model/package.txt"
for step in "$steps"/client_*.py "$steps"/server_*.py; do
    name=$(basename "$step" .py)
    printf '#!/bin/bash\nexec "%s" "%s" "$@"\n' "$python" "$step" > "$steps/build/$name"
    chmod +x "$steps/build/$name"
done
