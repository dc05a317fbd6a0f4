// marks: records the completion of each action of a list, for the streams that wait for it.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <parallel/core/config.hpp>

namespace parallel::pipeline {

/// The actions run on streams that compute and on streams that exchange, of possibly two types.
template <class Compute, class Exchange, class Request>
class marks {
 public:
  explicit marks(std::size_t actions) : marks_(actions) {}

  void computed(std::size_t action, Compute& stream) {
    marks_[action].computation = stream.record();
  }
  template <class Stream>
  void exchanged(std::size_t action, Stream& stream) {
    marks_[action].exchange = stream.record();
  }
  /// The action is complete with this request: element `request` of the vector given to wait_for.
  void requested(std::size_t action, std::size_t request) {
    marks_[action].request = static_cast<int>(request);
  }

  /// Later work on `stream` runs after the actions.
  template <class Stream>
  void wait_for(std::vector<int> const& actions, Stream& stream,
                std::vector<Request>& requests) const {
    for (int const dependency : actions) {
      auto const& mark_of_dependency = marks_[static_cast<std::size_t>(dependency)];
      if (mark_of_dependency.request >= 0)
        requests[static_cast<std::size_t>(mark_of_dependency.request)].wait_on(stream);
      if (mark_of_dependency.computation) stream.wait(*mark_of_dependency.computation);
      if (mark_of_dependency.exchange) stream.wait(*mark_of_dependency.exchange);
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
