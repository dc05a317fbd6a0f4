// call_group: several collectives of one communicator made as one call: they are enqueued, checked
// and completed together, as between NCCL's ncclGroupStart and ncclGroupEnd.
//
// The cost of a call (a rendezvous of threads, a launch, a comparison of signatures) is paid once
// for all segments of a unit. The results have the same bits as those of single calls.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/comm/collectives.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/comm/forwarding.hpp>

namespace parallel {

/// A communicator that collects calls: each returns a request that is done, and all of them run
/// when `end` is called. No call of a group may read what another one writes.
template <submits_operations Comm>
class call_group : public forwarding<call_group<Comm>, Comm*, typename Comm::stream_type> {
  using base = forwarding<call_group, Comm*, typename Comm::stream_type>;

 public:
  using stream_type = typename Comm::stream_type;
  using request_type = typename Comm::request_type;

  /// A group of calls on `comm`, which must outlive it.
  explicit call_group(Comm& comm) : base(&comm) {}

  request_type submit(stream_type&, operation const& op) {
    bool const is_separate = is_message(op.kind) && !groups_messages<Comm>;
    require(!is_separate && op.kind != operation_kind::group, "call_group at ", op.caller, ": a ",
            name_of(op.kind), " is no part of a group; call it on the communicator");
    members_.push_back(op);
    return {};
  }

  /// Enqueues all collected calls on `s`; if there are none, the request is done.
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
