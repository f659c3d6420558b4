#!/bin/sh
# Builds an image that Einsora looks for on the machine itself:
#
#   sh deploy/images/build.sh jupyter
#   sh deploy/images/build.sh localhost/einsora/llama-cpp:1
#
# Invariants: the context of a build is the image's folder and what it takes from the program, nothing
# else of the repository; words after the name go to docker build (such as --build-arg BASE=...).
set -eu

here=$(cd "$(dirname "$0")" && pwd)
source=$here/../../src
name=${1:?which image? one of: debian python jupyter llama-cpp vllm}
shift
name=${name#localhost/einsora/}
name=${name%:*}
[ -f "$here/$name/Dockerfile" ] || { echo "there is no image $name" >&2; exit 1; }

# The same pinned versions as on the machine itself.
case $name in
jupyter) set -- -C "$source/runtimes/jupyter" requirements.txt -- "$@" ;;
*) set -- -- "$@" ;;
esac
files=
while [ "$1" != -- ]; do
  files="$files $1"
  shift
done
shift
# shellcheck disable=SC2086
tar -c -C "$here/$name" . $files | docker build -t "localhost/einsora/$name:1" "$@" -
