// host_block: a block of CUDA threads on the host, with one fiber for each thread, run in turn.
//
// `run_grid` runs a kernel's body for every thread of every block. The test chooses the order in
// which threads run between barriers: a body whose result depends on it lacks a barrier. Each warp
// runs through its exchanges up to a barrier before the next warp runs. A barrier or exchange that
// not all threads reach is an error. Shared memory begins as NaN and has the size that the kernel
// states: writes up to the next multiple of 16 bytes are detected, and accesses beyond it fault.
#pragma once

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/device/cuda/block.hpp>

namespace parallel::testing {

/// The order in which the threads of a block run between barriers.
enum class thread_order { ascending, descending, shuffled };

/// A stack on which one piece of work after another runs, each of which may stop in between. Only
/// one thread ever uses a fiber. makecontext begins it; after that jumps change stacks, which takes
/// 30 ns, where swapcontext makes a system call and takes 500 ns. (ThreadSanitizer requires that
/// longjmp stay on its stack, but ignores _longjmp.)
class fiber {
 public:
  fiber() : stack_(new std::byte[stack_bytes]) {
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_.get();
    context_.uc_stack.ss_size = stack_bytes;
    auto const self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&context_, reinterpret_cast<void (*)()>(&fiber::live), 2,
                static_cast<unsigned>(self), static_cast<unsigned>(self >> 32));
  }

  fiber(fiber const&) = delete;
  fiber& operator=(fiber const&) = delete;

  /// Begins `work`, which must not throw, or resumes work that has stopped; returns when the work
  /// stops or ends.
  void run(std::function<void()> const& work) {
    work_ = &work;
    resume();
  }
  void resume() {
    if (_setjmp(caller_) != 0) return;
    if (begun_) _longjmp(inside_, 1);
    begun_ = true;
    setcontext(&context_);
  }

  /// Called from within its work: returns to the caller of `run` or `resume`.
  void stop() {
    if (_setjmp(inside_) == 0) _longjmp(caller_, 1);
  }

 private:
  static constexpr std::size_t stack_bytes = std::size_t{64} << 10;

  static void live(unsigned low, unsigned high) {
    auto* const self = reinterpret_cast<fiber*>(static_cast<std::uintptr_t>(low) |
                                                (static_cast<std::uintptr_t>(high) << 32));
    for (;;) {
      (*self->work_)();
      self->stop();
    }
  }

  std::unique_ptr<std::byte[]> stack_;
  ucontext_t context_{};
  std::jmp_buf caller_{}, inside_{};
  std::function<void()> const* work_ = nullptr;
  bool begun_ = false;
};

/// The shared memory of a block, aligned to 16 bytes, which ends at a page without access rights.
class shared_block_memory {
 public:
  shared_block_memory() = default;
  shared_block_memory(shared_block_memory const&) = delete;
  shared_block_memory& operator=(shared_block_memory const&) = delete;
  ~shared_block_memory() {
    if (pages_ != nullptr) ::munmap(pages_, room_ + page);
  }

  /// Resets the memory for a new block.
  void begin(std::size_t bytes) {
    bytes_ = bytes;
    if (bytes > room_) grow(bytes);
    if (bytes > 0) std::memset(data(), marked, rounded());
  }
  [[nodiscard]] std::byte* data() const { return pages_ + room_ - rounded(); }
  /// Whether the bytes after the requested size are unchanged.
  [[nodiscard]] bool intact() const {
    return std::all_of(data() + bytes_, data() + rounded(),
                       [](std::byte b) { return b == std::byte{marked}; });
  }

 private:
  static constexpr std::size_t page = 4096;
  static constexpr int marked = 0xff;

  [[nodiscard]] std::size_t rounded() const { return (bytes_ + 15) / 16 * 16; }
  void grow(std::size_t bytes) {
    if (pages_ != nullptr) ::munmap(pages_, room_ + page);
    room_ = (bytes + page - 1) / page * page;
    void* const got =
        ::mmap(nullptr, room_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) throw std::bad_alloc();
    pages_ = static_cast<std::byte*>(got);
    ::mprotect(pages_ + room_, page, PROT_NONE);
  }

  std::byte* pages_ = nullptr;
  std::size_t room_ = 0, bytes_ = 0;
};

class host_block {
 public:
  template <class Body>
  static void run_grid(std::size_t blocks, unsigned threads, std::size_t shared_bytes,
                       thread_order order, Body const& body) {
    require(threads % cuda::warp_size == 0, "a block has a multiple of 32 threads");
    // An earlier grid that ended with an exception left fibers in the middle of their work.
    if (std::exchange(resources_of_thread().busy, true)) resources_of_thread().fibers.clear();
    for (std::size_t b = 0; b < blocks; ++b) {
      host_block block(static_cast<unsigned>(b), static_cast<unsigned>(blocks), threads,
                       shared_bytes, order);
      block.run([&] { body(block); });
    }
    resources_of_thread().busy = false;
  }

  [[nodiscard]] unsigned thread() const { return current_; }
  [[nodiscard]] unsigned threads() const { return threads_; }
  [[nodiscard]] unsigned block() const { return block_; }
  [[nodiscard]] unsigned blocks() const { return blocks_; }

  void sync() { wait_in(thread_state::at_barrier); }

  template <class A>
  [[nodiscard]] A shuffle_xor(A value, unsigned mask) {
    static_assert(sizeof(A) <= sizeof(std::uint64_t));
    // Two sets of lanes alternate: a thread that writes to one has read the other.
    auto& lanes = lanes_[exchanges_[current_]++ % 2];
    std::memcpy(&lanes[current_], &value, sizeof value);
    wait_in(thread_state::at_exchange);
    A other;
    std::memcpy(&other, &lanes[current_ ^ mask], sizeof other);
    return other;
  }

  template <class T>
  [[nodiscard]] T* shared() {
    return reinterpret_cast<T*>(resources_of_thread().shared.data());
  }

 private:
  enum class thread_state { not_started, ready, at_barrier, at_exchange, finished };

  /// Resources that successive blocks in one host thread reuse.
  struct resources {
    std::vector<std::unique_ptr<fiber>> fibers;
    shared_block_memory shared;
    bool busy = false;
  };
  [[nodiscard]] static resources& resources_of_thread() {
    static thread_local resources instance;
    return instance;
  }

  host_block(unsigned block, unsigned blocks, unsigned threads, std::size_t shared_bytes,
             thread_order order)
      : block_(block),
        blocks_(blocks),
        threads_(threads),
        states_(threads, thread_state::not_started),
        lanes_{std::vector<std::uint64_t>(threads), std::vector<std::uint64_t>(threads)},
        exchanges_(threads),
        order_(threads),
        fiber_of_(threads) {
    resources_of_thread().shared.begin(shared_bytes);
    std::iota(order_.begin(), order_.end(), 0U);
    if (order == thread_order::descending) std::ranges::reverse(order_);
    if (order == thread_order::shuffled) shuffle(std::minstd_rand(block * 7919U + 1U));
  }

  // Shuffles the warps, and the lanes within each warp.
  void shuffle(std::minstd_rand random) {
    std::vector<unsigned> warps(threads_ / cuda::warp_size);
    std::iota(warps.begin(), warps.end(), 0U);
    std::ranges::shuffle(warps, random);
    for (std::size_t w = 0; w < warps.size(); ++w) {
      auto const lanes = std::span(order_).subspan(w * cuda::warp_size, cuda::warp_size);
      std::iota(lanes.begin(), lanes.end(), warps[w] * cuda::warp_size);
      std::ranges::shuffle(lanes, random);
    }
  }

  template <class F>
  void run(F const& work) {
    std::function<void()> const thread = [&] {
      try {
        work();
      } catch (...) {
        failure_ = std::current_exception();
      }
      states_[current_] = thread_state::finished;
    };
    while (
        !std::ranges::all_of(states_, [](thread_state p) { return p == thread_state::finished; })) {
      bool moved = false;
      for (std::size_t w = 0; w < order_.size(); w += cuda::warp_size)
        while (run_lanes(std::span(order_).subspan(w, cuda::warp_size), thread)) moved = true;
      moved = release(0, threads_, thread_state::at_barrier) || moved;
      require(moved, "block ", block_,
              ": some threads wait at a barrier or exchange that others do not reach");
    }
    require(resources_of_thread().shared.intact(), "block ", block_,
            ": written past its shared memory");
  }

  void wait_in(thread_state state) {
    states_[current_] = state;
    fiber_of_[current_]->stop();
  }

  // Runs every lane of a warp that can run; returns false if none could.
  bool run_lanes(std::span<unsigned const> lanes, std::function<void()> const& thread) {
    bool moved = false;
    for (unsigned const t : lanes) {
      if (states_[t] != thread_state::ready && states_[t] != thread_state::not_started) continue;
      moved = true;
      current_ = t;
      if (states_[t] == thread_state::ready) {
        fiber_of_[t]->resume();
      } else {
        states_[t] = thread_state::ready;
        fiber_of_[t] = free_fiber();
        fiber_of_[t]->run(thread);
      }
      if (states_[t] == thread_state::finished) free_.push_back(fiber_of_[t]);
      if (failure_) std::rethrow_exception(failure_);
    }
    unsigned const first = lanes[0] / cuda::warp_size * cuda::warp_size;
    return release(first, cuda::warp_size, thread_state::at_exchange) || moved;
  }

  // A fiber without work.
  [[nodiscard]] fiber* free_fiber() {
    if (free_.empty()) {
      auto& fibers = resources_of_thread().fibers;
      if (begun_ == fibers.size()) fibers.push_back(std::make_unique<fiber>());
      return fibers[begun_++].get();
    }
    auto* const last = free_.back();
    free_.pop_back();
    return last;
  }

  // Makes the threads ready if all of them are in `state`.
  bool release(unsigned first, unsigned count, thread_state state) {
    auto const begin = states_.begin() + first;
    if (!std::all_of(begin, begin + count, [&](thread_state p) { return p == state; }))
      return false;
    std::fill_n(begin, count, thread_state::ready);
    return true;
  }

  unsigned block_, blocks_, threads_;
  unsigned current_ = 0;
  std::vector<thread_state> states_;
  std::array<std::vector<std::uint64_t>, 2> lanes_;
  std::vector<unsigned> exchanges_;  // so far, by thread
  std::vector<unsigned> order_;
  std::vector<fiber*> fiber_of_, free_;
  std::size_t begun_ = 0;  // fibers
  std::exception_ptr failure_;
};

static_assert(cuda::thread_block<host_block>);

/// Runs `body` in every order of threads, and calls `check(order)` after each run.
template <class Body, class Check>
void run_in_every_order(std::size_t blocks, unsigned threads, std::size_t shared_bytes,
                        Body const& body, Check const& check) {
  for (auto const order :
       {thread_order::ascending, thread_order::descending, thread_order::shuffled}) {
    host_block::run_grid(blocks, threads, shared_bytes, order, body);
    check(order);
  }
}

}  // namespace parallel::testing
