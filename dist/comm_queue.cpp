// An intrusive list of calls under one mutex. See Note [Who executes a collective].
#include "dist/comm_queue.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <utility>

#include "core/base/log.h"

namespace lockstep::dist {

CommQueue::CommQueue(Execute execute, bool background, bool spin)
    : execute_(std::move(execute)), background_(background), spin_(spin) {}

CommQueue::~CommQueue() {
  drain();
  for (const auto& item : items_) item->queue = nullptr;  // a Work may live on; it is done
}

void CommQueue::Item::wait() {
  if (!is_completed()) queue->finish(*this);
  if (error != nullptr) std::rethrow_exception(error);
}

std::shared_ptr<Work> CommQueue::submit(const CollectiveCall& call) {
  std::shared_ptr<Work> work;
  const std::lock_guard lock(mutex_);
  Item& item = free_item(work);
  push(item, call);
  if (!background_) return work;
  const int64_t nbytes = call.count * element_size(call.fingerprint.dtype);
  if (nbytes >= kBackgroundBytes) {
    hand_over(item);
  } else if (head_ != &item) {
    for (Item* earlier = head_; earlier != nullptr; earlier = earlier->next) {
      if (earlier->next == &item) hand_over(*earlier);
    }
  }
  return work;
}

CommQueue::Item& CommQueue::free_item(std::shared_ptr<Work>& work) {
  for (size_t i = 0; i < items_.size(); ++i) {
    next_item_ = (next_item_ + 1) % items_.size();
    const auto& item = items_[next_item_];
    if (item->is_completed() && item.use_count() == 1) {
      work = item;
      return *item;
    }
  }
  items_.push_back(std::make_shared<Item>());
  items_.back()->queue = this;
  work = items_.back();
  return *items_.back();
}

void CommQueue::push(Item& item, const CollectiveCall& call) {
  item.call = call;
  item.next = nullptr;
  item.handed_over = false;
  item.error = nullptr;
  item.done.store(false, std::memory_order_relaxed);
  (tail_ != nullptr ? tail_->next : head_) = &item;
  tail_ = &item;
}

void CommQueue::hand_over(const Item& last) {
  for (Item* item = head_; item != nullptr; item = item->next) {
    item->handed_over = true;
    if (item == &last) break;
  }
  if (!thread_.joinable()) {
    // Signals are the app's: its handlers run on its own threads.
    sigset_t all;
    sigset_t previous;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &previous);
    thread_ = std::thread([this, prefix = log::prefix(), sink = log::sink()] {
      log::set_prefix(prefix);
      log::set_sink(sink);
      thread_main();
    });
    ::pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  }
  thread_wakes_.notify_one();
}

void CommQueue::run(const CollectiveCall& call) {
  Item item;
  item.queue = this;
  {
    const std::lock_guard lock(mutex_);
    push(item, call);
  }
  item.wait();
}

void CommQueue::finish(Item& item) {
  constexpr std::chrono::microseconds kSpin{30};
  std::unique_lock lock(mutex_);
  while (!item.is_completed()) {
    if (!busy_) {
      execute_front(lock, true);
      continue;
    }
    if (spin_) {
      lock.unlock();
      const auto end = std::chrono::steady_clock::now() + kSpin;
      while (!item.is_completed() && std::chrono::steady_clock::now() < end) {
        __builtin_ia32_pause();
      }
      lock.lock();
    }
    item_done_.wait(lock, [&] { return item.is_completed() || !busy_; });
  }
}

void CommQueue::execute_front(std::unique_lock<std::mutex>& lock, bool waiting) {
  Item& item = *head_;
  head_ = item.next;
  if (head_ == nullptr) tail_ = nullptr;
  busy_ = true;
  lock.unlock();
  try {
    execute_(item.call, waiting);
  } catch (...) {
    item.error = std::current_exception();
  }
  lock.lock();
  busy_ = false;
  item.done.store(true, std::memory_order_release);
  item_done_.notify_all();
  if (head_ != nullptr && head_->handed_over) thread_wakes_.notify_one();
}

void CommQueue::thread_main() {
  std::unique_lock lock(mutex_);
  while (true) {
    thread_wakes_.wait(lock,
                       [&] { return stop_ || (!busy_ && head_ != nullptr && head_->handed_over); });
    if (stop_) return;
    execute_front(lock, false);
  }
}

void CommQueue::drain() {
  {
    std::unique_lock lock(mutex_);
    while (busy_ || head_ != nullptr) {
      if (busy_) {
        item_done_.wait(lock, [&] { return !busy_; });
      } else {
        execute_front(lock, true);
      }
    }
    stop_ = true;
  }
  thread_wakes_.notify_one();
  if (thread_.joinable()) thread_.join();
}

}  // namespace lockstep::dist
