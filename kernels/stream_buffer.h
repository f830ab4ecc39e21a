// Scratch memory of one kernel call. It comes from the device's stream-ordered pool: allocating and
// freeing are operations of the stream, so neither waits and the memory is used again at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/stream.h"

namespace lockstep::kernels::cuda {

void* allocate_on_stream(size_t nbytes, Stream stream);
/// Never throws: an error shows at the stream's next call.
void free_on_stream(void* data, Stream stream) noexcept;

/// n elements, until it goes out of scope; work enqueued before that may use them.
template <typename T>
class StreamBuffer {
 public:
  StreamBuffer(int64_t n, Stream stream)
      : data_(static_cast<T*>(allocate_on_stream(static_cast<size_t>(n) * sizeof(T), stream))),
        stream_(stream) {}
  ~StreamBuffer() { free_on_stream(data_, stream_); }
  StreamBuffer(const StreamBuffer&) = delete;
  StreamBuffer& operator=(const StreamBuffer&) = delete;

  T* data() const { return data_; }

 private:
  T* data_;
  Stream stream_;
};

}  // namespace lockstep::kernels::cuda
