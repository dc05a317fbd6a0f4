// call_group: several collectives of one communicator as one call. They are enqueued, checked and
// completed together, as between NCCL's ncclGroupStart and ncclGroupEnd.
//
// The fixed cost of a call (a rendezvous of threads, a kernel launch, a comparison of signatures)
// is then paid once for all segments of a unit. The results have the same bits as those of single
// calls.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <parallel/comm/collectives.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/comm/forwarding.hpp>

namespace parallel {

/// A communicator that collects calls until `end` enqueues them together. A collected call returns
/// a completed request. No call of a group may read memory that another call of the group writes.
template <submits_operations Comm>
class call_group : public forwarding<call_group<Comm>, Comm*, typename Comm::stream_type> {
  using base = forwarding<call_group, Comm*, typename Comm::stream_type>;

 public:
  using stream_type = typename Comm::stream_type;
  using request_type = typename Comm::request_type;

  /// An empty group of calls on `comm`, which must outlive the group.
  explicit call_group(Comm& comm) : base(&comm) {}

  request_type submit(stream_type&, operation const& op) {
    bool const can_join = !is_message(op.kind) || groups_messages<Comm>;
    require(can_join && op.kind != operation_kind::group, "call_group at ", op.caller, ": a ",
            to_string(op.kind), " cannot be part of a group; call it on the communicator");
    members_.push_back(op);
    return {};
  }

  /// Enqueues all collected calls on `s`. Without collected calls, the returned request is
  /// completed.
  request_type end(stream_type& s, call_site caller = call_site::current()) {
    auto members = std::exchange(members_, {});
    if (members.empty()) return {};
    if (members.size() == 1) return inner_->submit(s, members.front());
    std::size_t bytes = 0;
    for (auto const& member : members) bytes += member.bytes();
    return inner_->submit(
        s, {.kind = operation_kind::group,
            .count = bytes,
            .caller = caller,
            .members = std::make_shared<std::vector<operation> const>(std::move(members))});
  }

 private:
  using base::inner_;
  std::vector<operation> members_;
};

}  // namespace parallel
