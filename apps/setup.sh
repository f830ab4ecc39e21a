# shellcheck shell=bash
# What apps/demo.sh and tests/run.sh share: the one list of packages, and functions that install
# what is missing, hand the build folders to the user behind sudo, and build a preset.

# "package" is looked up among the installed packages, "package:command" on the PATH.
# shellcheck disable=SC2034  # the lists are used by the scripts that read this file
{
  build_packages=(g++:c++ cmake:cmake ninja-build:ninja ccache:ccache libopenblas-dev libeigen3-dev
    zlib1g-dev nlohmann-json3-dev libcli11-dev)
  test_packages=(doctest-dev libbenchmark-dev python3:python3)
  check_packages=(clang-14:clang++-14 libclang-rt-14-dev llvm-14:llvm-cov-14
    clang-format-14:clang-format-14 binutils:objdump shellcheck:shellcheck dataset-fashion-mnist)
}
cmake_needed=3.25
PATH="$PWD/build/tools/bin:$PATH"  # where a CMake lands when the distribution's is too old

die() {
  echo "$0: $*" >&2
  exit 1
}

as_root() {
  local environment=(env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1)
  if [ "$(id -u)" = 0 ]; then
    "${environment[@]}" "$@" < /dev/null
  elif command -v sudo > /dev/null; then
    sudo "${environment[@]}" "$@"
  else
    die "not root, and there is no sudo; as root, run: $*"
  fi
}

is_installed() {
  local package=${1%%:*} command=${1#*:}
  if [ "$package" != "$1" ]; then
    command -v "$command" > /dev/null
  else
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2> /dev/null)" = installed ]
  fi
}

# install_missing ENTRY...: installs the packages that are not there, and says which.
install_missing() {
  local entry log missing=() known=()
  if ! command -v apt-get > /dev/null; then
    echo "No apt-get here: taking for granted that these are installed: $*"
    return
  fi
  for entry in "$@"; do
    is_installed "$entry" || missing+=("${entry%%:*}")
  done
  if [ ${#missing[@]} -gt 0 ]; then
    as_root apt-get update -qq || echo "The package lists could not be refreshed; using the old ones"
    for entry in "${missing[@]}"; do  # a release may have it inside another package
      if apt-cache show "$entry" > /dev/null 2>&1; then
        known+=("$entry")
      else
        echo "No package $entry in this release: going on without it"
      fi
    done
  fi
  if [ ${#known[@]} -gt 0 ]; then
    echo "Installing: ${known[*]}"
    log=$(mktemp)
    if ! as_root apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 \
      "${known[@]}" > "$log" 2>&1; then
      tail -20 "$log" >&2
      die "could not install ${known[*]}; the end of apt-get's output is above"
    fi
    rm -f "$log"
  fi
  install_recent_cmake
}

# A release whose own CMake is too old (Ubuntu 22.04) gets one in build/tools, from PyPI.
install_recent_cmake() {
  local found
  found=$(cmake --version | sed -n '1s/[^0-9]*//p')
  if [ "$(printf '%s\n' "$cmake_needed" "$found" | sort -V | head -1)" = "$cmake_needed" ]; then
    return
  fi
  echo "CMake is $found and must be at least $cmake_needed: installing one in build/tools"
  is_installed python3-venv || as_root apt-get install -y -qq --no-install-recommends python3-venv
  if ! python3 -m venv build/tools || ! build/tools/bin/pip install --quiet 'cmake>=3.25,<4'; then
    die "CMake $cmake_needed or newer is needed, and could not be installed with pip; see cmake.org"
  fi
}

# build_as_invoker SCRIPT ARGUMENT...: through sudo, root is needed only to install. The script
# starts over as the user who called sudo, to whom the build folders then belong.
build_as_invoker() {
  if [ "$(id -u)" != 0 ] || [ "${SUDO_UID:-0}" = 0 ]; then
    return
  fi
  mkdir -p build
  find build ! -uid "$SUDO_UID" -exec chown -h "$SUDO_UID:$SUDO_GID" {} +
  exec sudo -H -u "#$SUDO_UID" -- "$@"
}

# build PRESET TARGET...: configures and builds; without targets, everything.
build() {
  local preset=$1
  shift
  mkdir -p build
  if ! cmake --preset "$preset" > "build/$preset-configure.log" 2>&1; then
    cat "build/$preset-configure.log" >&2
    return 1
  fi
  if [ $# -gt 0 ]; then
    cmake --build "build/$preset" --target "$@"
  else
    cmake --build "build/$preset" -- -k 0  # one error does not hide the others
  fi
}
