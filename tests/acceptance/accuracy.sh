# shellcheck shell=bash
# train_reaches ACCURACY FLAG...: trains, and fails unless the last epoch's test accuracy is at least
# that. LOCKSTEP_BINARY: another binary than that of the release build.
train_reaches() {
  local wanted=$1 binary=${LOCKSTEP_BINARY:-build/release/lockstep} last reached
  shift
  echo "lockstep train $*"
  last=$("$binary" train "$@" | grep '^Epoch' | tail -1)
  echo "  $last"
  reached=$(sed -n 's/.*test accuracy: \([0-9.]*\).*/\1/p' <<< "$last")
  if awk -v reached="${reached:-0}" -v wanted="$wanted" 'BEGIN { exit !(reached >= wanted) }'; then
    echo "  reached $wanted"
  else
    echo "  FAILED: test accuracy ${reached:-unknown}, expected at least $wanted"
    return 1
  fi
}
