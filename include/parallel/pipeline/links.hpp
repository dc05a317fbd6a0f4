// links: the streams on which a rank's pipeline messages run, one for each peer and direction.
//
// Sends and receives wait for their other end without holding up the computation or each other. The
// streams are made when a plan first needs them and live as long as this object: make one for a
// training run, not one for a step.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include <parallel/comm/concepts.hpp>
#include <parallel/pipeline/plan.hpp>

namespace parallel::pipeline {

/// `Comm` connects the ranks of the pipeline axis, in its order.
template <communicator Comm>
class links {
 public:
  using stream_type = typename Comm::stream_type;

  using maker = std::function<std::shared_ptr<stream_type>()>;

  /// `comm` must outlive it, and carries nothing else while a plan is executed. `make` makes a
  /// stream, for memory that needs streams of its own.
  explicit links(
      Comm& comm, maker make = [] { return std::make_shared<stream_type>(); })
      : comm_(comm), make_(std::move(make)) {}

  [[nodiscard]] Comm& comm() { return comm_; }

  /// The stream of a message.
  [[nodiscard]] stream_type& of(step const& message) {
    auto& found = streams_[{message.peer, sends(message.kind)}];
    if (!found) found = make_();
    return *found;
  }

  /// Calls f(stream) for each stream that there is.
  template <class F>
  void each(F f) {
    for (auto const& [end, stream] : streams_) f(*stream);
  }

 private:
  Comm& comm_;
  maker make_;
  std::map<std::pair<int, bool>, std::shared_ptr<stream_type>>
      streams_;  // by peer, whether it sends
};

}  // namespace parallel::pipeline
