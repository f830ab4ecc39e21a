// Makes the programs start on C libraries as old as 2.34. The exception unwinder of g++ 12, linked
// statically, finds the object that holds an address by _dl_find_object, which is new in 2.35; here
// it is, by dl_iterate_phdr, which every C library has. Linked into the programs only.
#include <link.h>

#include <cstdint>

namespace {

// Laid out as the C library's struct dl_find_object, which headers before 2.35 do not declare.
struct FoundObject {
  uint64_t flags;
  void* map_start;
  void* map_end;
  link_map* map;  // the unwinder does not look at it
  void* eh_frame;
  uint64_t reserved[7];
};

struct Search {
  uintptr_t address;
  FoundObject* result;
  bool found;
};

int visit(dl_phdr_info* info, size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  uintptr_t start = UINTPTR_MAX;
  uintptr_t end = 0;
  uintptr_t eh_frame = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    const uintptr_t from = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD) {
      start = from < start ? from : start;
      end = from + segment.p_memsz > end ? from + segment.p_memsz : end;
    } else if (segment.p_type == PT_GNU_EH_FRAME) {
      eh_frame = from;
    }
  }
  if (search.address < start || search.address >= end || eh_frame == 0) return 0;
  *search.result = {.flags = 0,
                    .map_start = reinterpret_cast<void*>(start),
                    .map_end = reinterpret_cast<void*>(end),
                    .map = nullptr,
                    .eh_frame = reinterpret_cast<void*>(eh_frame),
                    .reserved = {}};
  search.found = true;
  return 1;
}

}  // namespace

// The assembler name is the C library's; the C++ name differs so that both can be declared.
extern "C" int lockstep_find_object(void* address, FoundObject* result) noexcept
    __asm__("_dl_find_object");

extern "C" int lockstep_find_object(void* address, FoundObject* result) noexcept {
  Search search{reinterpret_cast<uintptr_t>(address), result, false};
  dl_iterate_phdr(visit, &search);
  return search.found ? 0 : -1;
}
