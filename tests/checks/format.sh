#!/usr/bin/env bash
# Checks that clang-format 14 would change nothing, and the shell scripts with shellcheck.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit

format=$(command -v clang-format-14 || command -v clang-format) || {
  echo "SKIP: clang-format is not installed"
  exit 77
}
version=$("$format" --version | grep -o 'version [0-9]*' | tr -dc 0-9)
if [ "$version" != 14 ]; then
  echo "SKIP: clang-format is version $version, and the sources are formatted by version 14"
  exit 77
fi
status=0
mapfile -t sources < <(git ls-files -co --exclude-standard '*.h' '*.cpp' '*.cu' '*.cuh')
"$format" --dry-run -Werror "${sources[@]}" || status=1
mapfile -t scripts < <(git ls-files -co --exclude-standard '*.sh' .ci/run)
if command -v shellcheck > /dev/null; then
  shellcheck -x "${scripts[@]}" || status=1
fi
echo "format: ${#sources[@]} sources, ${#scripts[@]} scripts"
exit $status
