#!/usr/bin/env bash
# Checks that build/release/lockstep starts anywhere: which libraries it needs, the newest C library
# symbol, no AVX2 code outside the dispatched functions, and a start in an empty root that holds
# nothing but the C library.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
binary=${1:-build/release/lockstep}
newest_allowed=2.34
status=0

fail() {
  echo "FAILED: $*"
  status=1
}

[ -x "$binary" ] || { echo "FAILED: $binary is not built"; exit 1; }
echo "$binary: $(stat -c %s "$binary") bytes"

libraries=$(ldd "$binary" | awk '{ print $1 }' | xargs -n1 basename | sort)
echo "needs: $(echo "$libraries" | tr '\n' ' ')"
for library in $libraries; do
  case $library in
    linux-vdso.so.1 | ld-linux-x86-64.so.2 | libc.so.6 | libm.so.6) ;;
    *) fail "$library is neither libc, libm nor the loader" ;;
  esac
done

newest=$(objdump -T "$binary" | grep -o 'GLIBC_[0-9.]*' | tr -d A-Z_ | sort -Vu | tail -1)
echo "newest symbol: GLIBC_$newest"
if [ "$(printf '%s\n' "$newest_allowed" "$newest" | sort -V | tail -1)" != "$newest_allowed" ]; then
  fail "newer than GLIBC_$newest_allowed: $(objdump -T "$binary" | grep -F "GLIBC_$newest")"
fi

# An inline function compiled with AVX2 in two objects is kept once, and it may be that copy.
while read -r object; do
  shared=$(nm -C --defined-only "$object" | grep -E ' [WVu] ' | grep -vE ' V (typeinfo|vtable)')
  [ -z "$shared" ] || fail "$object defines inline functions that other objects share: $shared"
done < <(find build/release -name '*_avx2.cpp.o')

enter=(chroot)
if [ "$(id -u)" != 0 ]; then enter=(unshare --map-root-user chroot); fi
if ! "${enter[@]}" / true 2> /dev/null; then
  echo "SKIP: neither root nor allowed a user namespace, so no start in an empty root"
  exit $((status == 0 ? 77 : status))
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/lib64" "$root/lib/x86_64-linux-gnu"
loader=$(ldd "$binary" | grep -o '/lib64/ld-linux[^ ]*')
cp -L "$loader" "$root$loader"
for library in libc.so.6 libm.so.6; do
  cp -L "$(ldconfig -p | awk -v l="$library" '$1 == l && /x86-64/ { print $NF; exit }')" \
    "$root/lib/x86_64-linux-gnu/"
done
cp "$binary" "$root/lockstep"
for arguments in "--help" "info" "train --nproc 2 --device cpu"; do
  # shellcheck disable=SC2086  # the arguments are words
  if ! timeout 30 "${enter[@]}" "$root" /lockstep $arguments > "$root/output" 2>&1; then
    fail "lockstep $arguments in an empty root: $(tail -5 "$root/output")"
  fi
  echo "in an empty root: lockstep $arguments: $(wc -l < "$root/output") lines"
done
exit $status
