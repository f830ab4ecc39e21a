// The assembler copies the file into the read-only data: no generated source, no tool at build
// time. The path is relative to the root of the tree, which is an include directory.
#include "core/data/embedded.h"

asm(R"(
  .pushsection .rodata.lockstep_digits, "a", @progbits
  .hidden lockstep_digits_begin
  .hidden lockstep_digits_end
  .globl lockstep_digits_begin
  .globl lockstep_digits_end
lockstep_digits_begin:
  .incbin "core/data/digits.csv.gz"
lockstep_digits_end:
  .byte 0
  .popsection
)");

extern "C" {
extern const uint8_t lockstep_digits_begin[] __attribute__((visibility("hidden")));
extern const uint8_t lockstep_digits_end[] __attribute__((visibility("hidden")));
}

namespace lockstep::data {

std::span<const uint8_t> embedded_digits() { return {lockstep_digits_begin, lockstep_digits_end}; }

}  // namespace lockstep::data
