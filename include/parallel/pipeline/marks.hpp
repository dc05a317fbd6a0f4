// marks: when each action of a list is over, for the streams that wait for it.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <parallel/core/config.hpp>

namespace parallel::pipeline {

/// Of actions on streams that compute and on streams that exchange, which may be of two kinds.
template <class Compute, class Exchange, class Request>
class marks {
 public:
  explicit marks(std::size_t actions) : marks_(actions) {}

  void computed(std::size_t action, Compute& on) { marks_[action].computation = on.record(); }
  template <class Stream>
  void exchanged(std::size_t action, Stream& on) {
    marks_[action].exchange = on.record();
  }
  /// The action is over with this request, number `request` of those that wait_for is given.
  void requested(std::size_t action, std::size_t request) {
    marks_[action].request = static_cast<int>(request);
  }

  /// Later work of `on` runs after the actions.
  template <class Stream>
  void wait_for(std::vector<int> const& actions, Stream& on, std::vector<Request>& requests) const {
    for (int const other : actions) {
      auto const& of = marks_[static_cast<std::size_t>(other)];
      if (of.request >= 0) requests[static_cast<std::size_t>(of.request)].wait_on(on);
      if (of.computation) on.wait(*of.computation);
      if (of.exchange) on.wait(*of.exchange);
    }
  }

 private:
  struct mark {
    std::optional<decltype(std::declval<Compute&>().record())> computation;
    std::optional<decltype(std::declval<Exchange&>().record())> exchange;
    int request = -1;
  };

  std::vector<mark> marks_;
};

}  // namespace parallel::pipeline
