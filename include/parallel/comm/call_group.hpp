// call_group: collectives of one communicator that are made as one call: enqueued, agreed upon and
// done together, as between NCCL's ncclGroupStart and ncclGroupEnd.
//
// What costs by the call (a meeting of threads, a launch, a comparison of signatures) is paid once
// for all segments of a unit. The bits are those of single calls.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/comm/collectives.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/comm/forwarding.hpp>

namespace parallel {

/// A communicator whose collectives are requests that are done, and happen when `end` is called:
/// none of them may read what another one writes.
template <submits_operations Comm>
class call_group : public forwarding<call_group<Comm>, Comm*, typename Comm::stream_type> {
  using base = forwarding<call_group, Comm*, typename Comm::stream_type>;

 public:
  using stream_type = typename Comm::stream_type;
  using request_type = typename Comm::request_type;

  /// Of `comm`, which must outlive it.
  explicit call_group(Comm& comm) : base(&comm) {}

  request_type submit(stream_type&, operation const& op) {
    bool const is_apart = is_message(op.kind) && !groups_messages<Comm>;
    require(!is_apart && op.kind != operation_kind::group, "call_group at ", op.where, ": a ",
            name_of(op.kind), " is no part of a group; call it on the communicator");
    parts_.push_back(op);
    return {};
  }

  /// Enqueues all collectives so far on `s`; without one the request is done.
  request_type end(stream_type& s, call_site where = call_site::current()) {
    auto parts = std::exchange(parts_, {});
    if (parts.empty()) return {};
    if (parts.size() == 1) return inner_->submit(s, parts.front());
    std::size_t bytes = 0;
    for (auto const& part : parts) bytes += part.bytes();
    return inner_->submit(
        s, {.kind = operation_kind::group,
            .count = bytes,
            .where = where,
            .parts = std::make_shared<std::vector<operation> const>(std::move(parts))});
  }

 private:
  using base::inner_;
  std::vector<operation> parts_;
};

}  // namespace parallel
