// single_caller: refuses that two threads call a stepper at the same time, such as one that trains
// and one that evaluates: they would use the same memory and mix their exchanges.
#pragma once

#include <atomic>
#include <thread>

#include <parallel/core/error.hpp>

namespace parallel::train {

class single_caller {
 public:
  /// A call by this thread, until it is destroyed. Calls of one thread may nest.
  class call {
   public:
    explicit call(std::atomic<std::thread::id>& caller) {
      std::thread::id before{};
      auto const self = std::this_thread::get_id();
      if (caller.compare_exchange_strong(before, self)) caller_ = &caller;
      require(caller_ != nullptr || before == self,
              "two threads call a stepper, or its session, at the same time; call it from one "
              "thread, or from one after the other");
    }
    call(call&&) = delete;
    ~call() {
      if (caller_ != nullptr) *caller_ = std::thread::id{};
    }

   private:
    std::atomic<std::thread::id>* caller_ = nullptr;  // null in a nested call
  };

  /// Throws where another thread's call has not ended.
  [[nodiscard]] call begin() { return call(caller_); }

 private:
  std::atomic<std::thread::id> caller_{};
};

}  // namespace parallel::train
