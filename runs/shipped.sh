#!/usr/bin/env bash
# Makes a shipped model from the data, step by step, into work/DIRECTION/int8:
#
#     runs/shipped.sh en-de       # or de-en
#
# The corpora that runs/en-de-base.yaml names lie in data/en-de. Given again, it uses the vocabulary,
# the prepared text and the steps that were made before, as long as the corpora are the same; the
# typed text, the mean of the checkpoints and the weights in eight bits are made anew. Further
# arguments (--set training.steps=100) go to the commands that read a run file. TYPED_PAIRS sets how
# many pairs of typed text are made, and PYTHON what runs it all.
set -euo pipefail

direction=${1-}
if [[ ! $direction =~ ^(en-de|de-en)$ ]]; then
  echo "usage: runs/shipped.sh en-de|de-en [--set SECTION.KEY=VALUE …]" >&2
  exit 2
fi
shift
source=${direction%-*} target=${direction#*-}
runs=$(dirname "$0")
train=data/en-de/train dev=data/en-de/dev/newstest2013

python=${PYTHON-python}
allyouneed() { "$python" -m allyouneed "$@"; }
step() { echo "== $*" >&2; }

step "Text as people type it"
for way in en-de de-en; do
  "$python" "$runs/typed_text.py" "$way" --pairs "${TYPED_PAIRS-150000}" --output work/typed \
    $train/{tatoeba,newstest2008-2012,bcontrast,debian_www}.LANG.xz
done

step "The vocabulary, which is the teacher's for both directions"
allyouneed prepare "$runs/en-de-base.yaml" --quiet "$@"

step "Training"
allyouneed prepare "$runs/$direction.yaml" "$@"
allyouneed train "$runs/$direction.yaml" "$@"

step "Weights in eight bits"
allyouneed quantize "work/$direction/model" --output "work/$direction/int8"

step "Scores on newstest2013, the development set"
allyouneed evaluate --model "work/$direction/int8" --source $dev.$source --reference $dev.$target
