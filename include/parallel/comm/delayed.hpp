// delayed: delays every call by a random time, to find code that works only by luck.
//
// Ranks and streams then meet in a different order in every run, so that a test shows a missing
// wait, a buffer used too early or an order of calls that fits by accident. Results must not
// change.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include <parallel/comm/collectives.hpp>
#include <parallel/comm/coloring.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/comm/forwarding.hpp>

namespace parallel {

struct delayed_options {
  /// The seed of the delays; give every rank a different one.
  std::uint64_t seed = 0;
  std::chrono::microseconds longest{200};
};

template <has_submit Inner>
requires task_stream<typename Inner::stream_type>
class delayed : public forwarding<delayed<Inner>, Inner, typename Inner::stream_type> {
  using base = forwarding<delayed, Inner, typename Inner::stream_type>;

 public:
  using stream_type = typename Inner::stream_type;
  using request_type = typename Inner::request_type;

  /// Owns `inner`.
  explicit delayed(Inner inner, delayed_options options = {})
      : base(std::move(inner)), options_(options), random_(options.seed) {}

  /// Enqueues a sleep of 0 to `longest`, then `op`, and half of the time a second sleep, so that
  /// results are also late.
  request_type submit(stream_type& s, operation const& op) {
    sleep_on(s);
    auto inner = inner_.submit(s, op);
    if (random_() % 2 == 0) return inner;
    auto origin = inner.origin();
    return detail::enqueue(s, std::move(origin), op,
                           [time = next_delay(), inner = std::move(inner)] { sleep(time); });
  }

  [[nodiscard]] signature_exchange open_exchange(stream_type const* s = nullptr) {
    return inner_.open_exchange(s);
  }

  /// See `has_split`.
  [[nodiscard]] delayed split(coloring const& colors,
                              std::string name = {}) requires has_split<Inner> {
    return delayed(inner_.split(colors, std::move(name)), {random_(), options_.longest});
  }

 private:
  static void sleep(std::chrono::microseconds time) { std::this_thread::sleep_for(time); }

  [[nodiscard]] std::chrono::microseconds next_delay() {
    auto const range = static_cast<std::uint64_t>(options_.longest.count()) + 1;
    return std::chrono::microseconds(static_cast<std::int64_t>(random_() % range));
  }

  void sleep_on(stream_type& s) {
    s.enqueue([time = next_delay()] { sleep(time); });
  }

  using base::inner_;
  delayed_options options_;
  std::mt19937_64 random_;
};

}  // namespace parallel
