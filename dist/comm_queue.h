// Collectives in the order in which they were asked for, executed by whoever has time first: a
// communication thread while the caller computes, or the caller itself once it waits.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dist/process_group.h"
#include "dist/shm_layout.h"

namespace lockstep::dist {

/// One collective to execute.
struct CollectiveCall {
  CallFingerprint fingerprint;
  void* output = nullptr;
  const void* input = nullptr;
  int64_t count = 0;    ///< elements of the tensor that one rank contributes (reduce_scatter: gets)
  std::string problem;  ///< what is wrong with the arguments, for the others to hear too
};

// Note [Who executes a collective]
// Handing a collective to another thread costs a wake-up, 10 us and more; a small one takes 5 us by
// itself. So a call of at least kBackgroundBytes goes to the communication thread at once; a
// smaller one when the next call shows that the caller went on computing. wait() takes over what is
// still queued and executes it where it is, so the last bucket of a step, and the only one of a
// small model, costs no wake-up. Only one thread executes at a time, always the oldest call.
class CommQueue {
 public:
  /// execute(call, waiting): waiting is true when the caller has nothing else to do.
  using Execute = std::function<void(CollectiveCall&, bool waiting)>;

  /// spin: a waiting caller may look for a result for a moment before it sleeps.
  CommQueue(Execute execute, bool background, bool spin);
  ~CommQueue();
  CommQueue(const CommQueue&) = delete;
  CommQueue& operator=(const CommQueue&) = delete;

  /// Queues a call. In a steady state nothing is allocated.
  std::shared_ptr<Work> submit(const CollectiveCall& call);

  /// Executes what is queued, then this call. Throws what it throws.
  void run(const CollectiveCall& call);

  /// Executes what is queued (errors stay with the Work they belong to) and ends the thread.
  void drain();

 private:
  struct Item final : Work {
    void wait() override;
    bool is_completed() const override { return done.load(std::memory_order_acquire); }

    CollectiveCall call;
    CommQueue* queue = nullptr;
    Item* next = nullptr;
    bool handed_over = false;  ///< the communication thread may execute it
    std::atomic<bool> done{true};
    std::exception_ptr error;
  };

  static constexpr int64_t kBackgroundBytes = 256 * 1024;

  Item& free_item(std::shared_ptr<Work>& work);
  void push(Item& item, const CollectiveCall& call);
  void hand_over(const Item& last);
  void finish(Item& item);
  void execute_front(std::unique_lock<std::mutex>& lock, bool waiting);
  void thread_main();

  Execute execute_;
  const bool background_;
  const bool spin_;
  std::mutex mutex_;
  std::condition_variable thread_wakes_;
  std::condition_variable item_done_;
  Item* head_ = nullptr;
  Item* tail_ = nullptr;
  bool busy_ = false;  ///< somebody executes
  bool stop_ = false;
  std::vector<std::shared_ptr<Item>> items_;  ///< all that submit() ever made; reused
  size_t next_item_ = 0;
  std::thread thread_;
};

}  // namespace lockstep::dist
