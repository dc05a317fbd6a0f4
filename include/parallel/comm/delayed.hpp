// delayed: lets every call come late by a random time, to find what depends on luck.
//
// Ranks and streams then meet in another order in every run, so a missing wait, a buffer used too
// early or an order of calls that only happens to fit shows in a test. Results must not change.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <parallel/comm/collectives.hpp>
#include <parallel/comm/coloring.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/comm/forwarding.hpp>

namespace parallel {

struct delayed_options {
  /// The delays; give every rank a seed of its own.
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

  /// Enqueues a sleep of 0 to `longest`, then `op`, and another sleep half of the times: results
  /// come late too.
  request_type submit(stream_type& s, operation const& op) {
    sleep_on(s);
    auto inner = inner_.submit(s, op);
    if (random_() % 2 == 0) return inner;
    auto from = inner.from();
    return detail::enqueue(s, std::move(from), op,
                           [time = next(), inner = std::move(inner)] { pause(time); });
  }

  [[nodiscard]] signature_exchange open_exchange(stream_type const* on = nullptr) {
    return inner_.open_exchange(on);
  }

  /// See `has_split`.
  [[nodiscard]] delayed split(coloring const& by, std::string name = {}) requires has_split<Inner> {
    return delayed(inner_.split(by, std::move(name)), {random_(), options_.longest});
  }

 private:
  static void pause(std::chrono::microseconds time) { std::this_thread::sleep_for(time); }

  [[nodiscard]] std::chrono::microseconds next() {
    auto const range = static_cast<std::uint64_t>(options_.longest.count()) + 1;
    return std::chrono::microseconds(static_cast<std::int64_t>(random_() % range));
  }

  void sleep_on(stream_type& s) {
    s.enqueue([time = next()] { pause(time); });
  }

  using base::inner_;
  delayed_options options_;
  std::mt19937_64 random_;
};

}  // namespace parallel
