// Shared memory by descriptor, and a futex in it.
#include "tests/emulation/nccl/segment.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <random>

namespace lockstep::emulation {
namespace {

constexpr char kIdFormat[] = "lockstep-emulation %d %d %llx";
constexpr long kNapNs = 5'000'000;

Segment* map(int descriptor) {
  void* memory = mmap(nullptr, sizeof(Segment), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<Segment*>(memory);
}

}  // namespace

bool create_segment(ncclUniqueId* id) {
  std::random_device random;
  const uint64_t token = (uint64_t{random()} << 32) | random();
  // The descriptor stays open for the life of the process: ranks may join at any time.
  const int descriptor = memfd_create("lockstep-emulation-nccl", MFD_CLOEXEC);
  if (descriptor < 0 || ftruncate(descriptor, sizeof(Segment)) != 0) return false;
  Segment* segment = map(descriptor);
  if (segment == nullptr) return false;
  segment->token = token;
  close_segment(segment);
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->internal, sizeof id->internal, kIdFormat, static_cast<int>(getpid()),
                descriptor, static_cast<unsigned long long>(token));
  return true;
}

Segment* open_segment(const ncclUniqueId& id) {
  int process = 0, number = 0;
  unsigned long long token = 0;
  char text[sizeof id.internal + 1] = {};
  std::memcpy(text, id.internal, sizeof id.internal);
  if (std::sscanf(text, kIdFormat, &process, &number, &token) != 3) return nullptr;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", process, number);
  const int descriptor = open(path, O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  Segment* segment = lseek(descriptor, 0, SEEK_END) >= static_cast<off_t>(sizeof(Segment))
                         ? map(descriptor)
                         : nullptr;
  close(descriptor);
  if (segment != nullptr && segment->token != token) {
    close_segment(segment);
    segment = nullptr;
  }
  return segment;
}

void close_segment(Segment* segment) { munmap(segment, sizeof(Segment)); }

void wait_for_generation(Segment& segment, uint32_t seen) {
  const timespec nap{0, kNapNs};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&segment.generation), FUTEX_WAIT, seen, &nap,
          nullptr, 0);
}

void wake_all(Segment& segment) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&segment.generation), FUTEX_WAKE, INT32_MAX,
          nullptr, nullptr, 0);
}

bool is_dead(int process) {
  char path[40], text[256];
  std::snprintf(path, sizeof path, "/proc/%d/stat", process);
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return true;
  const ssize_t n = read(descriptor, text, sizeof text - 1);
  close(descriptor);
  text[n > 0 ? n : 0] = '\0';
  const char* state = std::strrchr(text, ')');
  return state == nullptr || state[2] == 'Z' || state[2] == 'X';
}

}  // namespace lockstep::emulation
