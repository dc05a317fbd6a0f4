// host_block: a block of CUDA threads on the host: one fiber a thread, run one after another.
//
// `run_grid` runs a kernel's body for every thread of every block. The order in which threads run
// between barriers is a choice of the test: a body whose result depends on it lacks a barrier. Each
// warp runs as far as it can before the next one does, through its exchanges, up to a barrier. A
// barrier or exchange that not all threads reach is an error, and shared memory begins as NaN.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/device/cuda/block.hpp>

namespace parallel::testing {

/// In which order the threads of a block run between barriers.
enum class thread_order { ascending, descending, shuffled };

class host_block {
 public:
  template <class Body>
  static void run_grid(unsigned blocks, unsigned threads, std::size_t shared_bytes,
                       thread_order order, Body const& body) {
    require(threads % cuda::warp_size == 0, "a block has a multiple of 32 threads");
    for (unsigned b = 0; b < blocks; ++b) {
      host_block block(b, blocks, threads, shared_bytes, order);
      block.run([&] { body(block); });
    }
  }

  [[nodiscard]] unsigned thread() const { return current_; }
  [[nodiscard]] unsigned threads() const { return threads_; }
  [[nodiscard]] unsigned block() const { return block_; }
  [[nodiscard]] unsigned blocks() const { return blocks_; }

  void sync() { wait_at(place::barrier); }

  template <class A>
  [[nodiscard]] A shuffle_xor(A value, unsigned mask) {
    static_assert(sizeof(A) <= sizeof(std::uint64_t));
    std::memcpy(&lanes_[current_], &value, sizeof value);
    wait_at(place::exchange);
    A other;
    std::memcpy(&other, &lanes_[current_ ^ mask], sizeof other);
    wait_at(place::exchange);  // nobody writes before all have read
    return other;
  }

  template <class T>
  [[nodiscard]] T* shared() {
    return reinterpret_cast<T*>(shared_.data());
  }

 private:
  enum class place { ready, barrier, exchange, done };
  struct alignas(16) line {
    std::byte bytes[16];
  };
  static constexpr std::size_t stack_bytes = std::size_t{64} << 10;

  host_block(unsigned block, unsigned blocks, unsigned threads, std::size_t shared_bytes,
             thread_order order)
      : block_(block),
        blocks_(blocks),
        threads_(threads),
        at_(threads, place::ready),
        lanes_(threads),
        order_(threads),
        contexts_(threads),
        shared_(shared_bytes / sizeof(line) + 1),
        stacks_(new std::byte[threads * stack_bytes]) {
    std::memset(static_cast<void*>(shared_.data()), 0xff, shared_.size() * sizeof(line));
    std::iota(order_.begin(), order_.end(), 0U);
    if (order == thread_order::descending) std::ranges::reverse(order_);
    if (order == thread_order::shuffled) shuffle(std::minstd_rand(block * 7919U + 1U));
  }

  // Warps among each other, and lanes within each.
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
    work_ = [](void const* f) { (*static_cast<F const*>(f))(); };
    argument_ = &work;
    for (unsigned t = 0; t < threads_; ++t) {
      getcontext(&contexts_[t]);
      contexts_[t].uc_stack.ss_sp = stacks_.get() + t * stack_bytes;
      contexts_[t].uc_stack.ss_size = stack_bytes;
      contexts_[t].uc_link = &scheduler_;
      auto const self = reinterpret_cast<std::uintptr_t>(this);
      makecontext(&contexts_[t], reinterpret_cast<void (*)()>(&host_block::enter), 2,
                  static_cast<unsigned>(self), static_cast<unsigned>(self >> 32));
    }
    while (!std::ranges::all_of(at_, [](place p) { return p == place::done; })) {
      bool moved = false;
      for (std::size_t w = 0; w < order_.size(); w += cuda::warp_size)
        while (run_lanes(std::span(order_).subspan(w, cuda::warp_size))) moved = true;
      moved = release(0, threads_, place::barrier) || moved;
      require(moved, "block ", block_,
              ": some threads wait at a barrier or exchange that others do not reach");
    }
  }

  static void enter(unsigned low, unsigned high) {
    auto* const self = reinterpret_cast<host_block*>(static_cast<std::uintptr_t>(low) |
                                                     (static_cast<std::uintptr_t>(high) << 32));
    try {
      self->work_(self->argument_);
    } catch (...) {
      self->failure_ = std::current_exception();
    }
    self->at_[self->current_] = place::done;
  }

  void wait_at(place where) {
    at_[current_] = where;
    swapcontext(&contexts_[current_], &scheduler_);
  }

  // Runs every lane of a warp that can go on; false when none could.
  bool run_lanes(std::span<unsigned const> lanes) {
    bool moved = false;
    for (unsigned const t : lanes) {
      if (at_[t] != place::ready) continue;
      moved = true;
      current_ = t;
      swapcontext(&scheduler_, &contexts_[t]);
      if (failure_) std::rethrow_exception(failure_);
    }
    unsigned const first = lanes[0] / cuda::warp_size * cuda::warp_size;
    return release(first, cuda::warp_size, place::exchange) || moved;
  }

  // Lets threads go on that have all come to `where`.
  bool release(unsigned first, unsigned count, place where) {
    auto const begin = at_.begin() + first;
    if (!std::all_of(begin, begin + count, [&](place p) { return p == where; })) return false;
    std::fill_n(begin, count, place::ready);
    return true;
  }

  unsigned block_, blocks_, threads_;
  unsigned current_ = 0;
  std::vector<place> at_;
  std::vector<std::uint64_t> lanes_;
  std::vector<unsigned> order_;
  std::vector<ucontext_t> contexts_;
  ucontext_t scheduler_{};
  std::vector<line> shared_;
  std::unique_ptr<std::byte[]> stacks_;
  void (*work_)(void const*) = nullptr;
  void const* argument_ = nullptr;
  std::exception_ptr failure_;
};

static_assert(cuda::thread_block<host_block>);

/// Runs `body` in every order of threads; after each run, `check(order)` looks at what it wrote.
template <class Body, class Check>
void run_in_every_order(unsigned blocks, unsigned threads, std::size_t shared_bytes,
                        Body const& body, Check const& check) {
  for (auto const order :
       {thread_order::ascending, thread_order::descending, thread_order::shuffled}) {
    host_block::run_grid(blocks, threads, shared_bytes, order, body);
    check(order);
  }
}

}  // namespace parallel::testing
