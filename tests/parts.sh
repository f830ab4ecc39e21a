# shellcheck shell=bash
# The parts of tests/run.sh. Each adds to the three counts; a part that cannot be built is a failure.
passed=0
failed=0
skipped=0
report=()  # one line a part
broken=()  # presets that did not build

# part NAME COMMAND...: runs one part and prints how long it took.
part() {
  local name=$1 start=$SECONDS before=$failed minutes verdict=ok not_run=false
  shift
  printf '\n== %s\n' "$name"
  "$@"
  if [ "$not_run" = true ]; then verdict="not run"; fi
  minutes=$(awk -v s=$((SECONDS - start)) 'BEGIN { printf "%.1f", s / 60 }')
  if [ "$failed" -gt "$before" ]; then verdict=FAILED; fi
  report+=("$(printf '%-60s %6s min  %s' "$name" "$minutes" "$verdict")")
  printf '== %s: %s min, %s\n' "$name" "$minutes" "$verdict"
}

# build_part PRESET TARGET...
build_part() {
  if ! build "$@"; then
    broken+=("$1")
    failed=$((failed + 1))
  fi
}

is_broken() { [[ " ${broken[*]} " == *" $1 "* ]]; }

# Has nothing changed since the tests of PRESET passed? Then --all need not repeat them.
is_fresh() {
  local stamp=build/$1/tests_passed
  [ -e "$stamp" ] && [ -z "$(find CMakeLists.txt cmake core kernels dist apps tests \
    "build/$1/lockstep" -newer "$stamp" -type f -print -quit)" ]
}

# An attribute of the first element of a CTest report.
count_in() { grep -o -m1 "$2=\"[0-9]*\"" "$1" | head -1 | grep -o '[0-9]*'; }

# add_counts PRESET STATUS: what CTest reported, and the status it ended with.
add_counts() {
  local results=build/$1/tests.xml total bad left_out
  total=$(count_in "$results" tests)
  bad=$(count_in "$results" failures)
  left_out=$(($(count_in "$results" skipped) + $(count_in "$results" disabled)))
  if [ "$2" -ne 0 ] && [ "$bad" = 0 ]; then bad=1 total=$((total + 1)); fi
  passed=$((passed + total - bad - left_out))
  failed=$((failed + bad))
  skipped=$((skipped + left_out + $(wc -l < "build/$1/skips")))
}

# test_part PRESET CTEST_ARGUMENT...
test_part() {
  local preset=$1 results=$PWD/build/$1/tests.xml
  shift
  if is_broken "$preset"; then
    echo "not run: the build failed"
    not_run=true  # of part()
    return
  fi
  if is_fresh "$preset"; then
    echo "passed already, and nothing has changed since"
    add_counts "$preset" 0
    return
  fi
  rm -f "$results" "build/$preset/tests_passed"
  touch "build/$preset/tests_started"
  ctest --test-dir "build/$preset" -j "$(nproc)" --output-on-failure --no-tests=error \
    --test-output-size-passed 1000000 --output-junit "$results" "$@"
  local status=$?
  grep -h 'SKIP: ' "build/$preset/Testing/Temporary/LastTest.log" > "build/$preset/skips"
  sort "build/$preset/skips" | uniq -c
  if [ ! -e "$results" ]; then
    failed=$((failed + 1))
    return
  fi
  add_counts "$preset" "$status"
  if [ $status = 0 ]; then mv "build/$preset/tests_started" "build/$preset/tests_passed"; fi
}

# A script says 0 for passed, 77 for skipped (having printed why), anything else for failed.
script_part() {
  "$@"
  case $? in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)) ;;
  esac
}

# One fuzzer, a minute or a million inputs, from the committed corpus; finds stay in build/.
fuzz_one() {
  local name=$1 corpus=build/fuzz/corpus/$1
  mkdir -p "$corpus"
  LLVM_PROFILE_FILE=build/fuzz/$name.profraw "build/fuzz/tests/$name" -max_total_time=60 \
    -runs=1000000 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/$name-" "$corpus" "tests/fuzz/corpus/${name%_fuzz}" \
    > "build/fuzz/$name.log" 2>&1
  echo $? > "build/fuzz/$name.status"
}
export -f fuzz_one

fuzz_part() {
  local source name names=()
  for source in tests/fuzz/*_fuzz.cpp; do
    if [ -e "$source" ]; then names+=("$(basename "$source" .cpp)"); fi
  done
  if [ ${#names[@]} = 0 ]; then
    echo "no fuzzers in tests/fuzz"
    return
  fi
  if ! build fuzz "${names[@]}"; then
    failed=$((failed + ${#names[@]}))
    return
  fi
  printf '%s\n' "${names[@]}" | xargs -P "$(nproc)" -I{} bash -c 'fuzz_one {}'
  for name in "${names[@]}"; do
    if [ "$(cat "build/fuzz/$name.status")" = 0 ]; then
      passed=$((passed + 1))
      echo "$name: $(grep number_of_executed_units "build/fuzz/$name.log" | tr -dc 0-9) inputs"
    else
      failed=$((failed + 1))
      echo "$name FAILED; the end of build/fuzz/$name.log:"
      tail -30 "build/fuzz/$name.log"
    fi
  done
  script_part tests/fuzz/coverage.py
}

# The closing lines and the exit status of tests/run.sh.
close_parts() {
  printf '\n'
  printf '%s\n' "${report[@]}"
  printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  [ "$failed" = 0 ]
}
