// checked: a decorator in which all ranks agree on every call, except splits by known colors.
//
// In each collective the ranks exchange signatures (operation, element type, count, reduction,
// root, number of the call, call site): before it, or, where the communicator supports it, while it
// runs and before it ends. If they differ, every rank throws one sentence that names the call
// sites, what differs and which ranks; if a rank is missing, the others say so at the deadline.
// Before each message the sender sends its signature to the receiver. Cost: one exchange of 256
// bytes per rank and call, and its latency where it precedes the call.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/agreement.hpp>
#include <parallel/comm/collectives.hpp>
#include <parallel/comm/coloring.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/comm/forwarding.hpp>
#include <parallel/comm/signature.hpp>

namespace parallel {

struct checked_options {
  /// By default a collective may be called from different lines on different ranks.
  call_sites sites = call_sites::may_differ;
};

/// A communicator whose ranks can compare their calls while the call runs.
template <class C>
concept compares_during_call = has_submit<C> &&
    requires(C c, typename C::stream_type& s, operation op, signature local,
             std::string (*judge)(std::vector<signature> const&)) {
  { c.submit_compared(s, op, local, judge) } -> std::same_as<typename C::request_type>;
};

template <has_submit Inner>
requires task_stream<typename Inner::stream_type>
class checked
    : public forwarding<checked<Inner>, std::shared_ptr<Inner>, typename Inner::stream_type> {
  using base = forwarding<checked, std::shared_ptr<Inner>, typename Inner::stream_type>;

 public:
  using stream_type = typename Inner::stream_type;
  using request_type = typename Inner::request_type;
  using base::rank;
  using base::size;
  using base::world_rank;

  /// Owns `inner`. All ranks must use it, or none.
  explicit checked(Inner inner, checked_options options = {})
      : base(std::make_shared<Inner>(std::move(inner))), options_(options) {
    for (int r = 0; r < size(); ++r) names_.push_back(world_rank(r));
  }

  checked(checked&&) = default;
  checked& operator=(checked&&) = default;

  /// Enqueues the check, then `op`.
  request_type submit(stream_type& s, operation const& op) {
    if (is_message(op.kind)) return submit_message(s, op);
    if constexpr (compares_during_call<Inner>)
      return inner_->submit_compared(
          s, op, named(op, calls_++),
          [names = names_, sites = options_.sites](std::vector<signature> const& signatures) {
            return disagreement(signatures, sites, names);
          });
    s.enqueue([exchange = inner_->open_exchange(&s), local = named(op, calls_++), names = names_,
               sites = options_.sites,
               inner = inner_] { refuse(*inner, disagreement(exchange(local), sites, names)); });
    return inner_->submit(s, op);
  }

  [[nodiscard]] signature_exchange open_exchange(stream_type const* s = nullptr) {
    return inner_->open_exchange(s);
  }

  /// See `has_split`.
  [[nodiscard]] checked split(coloring const& colors,
                              std::string name = {}) requires has_split<Inner> {
    return checked(inner_->split(colors, std::move(name)), options_);
  }

 private:
  // The signature of `op`, with peers given as world ranks.
  [[nodiscard]] signature named(operation const& op, std::uint64_t number) const {
    auto out = signature_of(op, number, this->name());
    if (op.peer >= 0) out.peer = world_rank(op.peer);
    return out;
  }

  // Messages of one tag keep their order, so a header on the same tag comes before its payload.
  request_type submit_message(stream_type& s, operation const& op) {
    auto const local = std::make_shared<signature const>(named(op, 0));
    auto const header = std::make_shared<signature>(*local);
    operation header_op = op;
    header_op.type = dtype::u8;
    header_op.count = sizeof *header;
    header_op.described_as = local;
    header_op.sent = nullptr;  // the check does not count as the caller's traffic
    if (op.kind == operation_kind::send)
      header_op.in = header.get();
    else
      header_op.out = header.get();
    auto header_request = std::make_shared<request_type>(inner_->submit(s, header_op).keep(header));
    if (op.kind == operation_kind::recv)
      s.enqueue([header, local, own_rank = world_rank(rank()), inner = inner_] {
        refuse(*inner, message_disagreement(*header, local->peer, *local, own_rank));
      });
    // `header_request` is done by then: the stream runs it first.
    return inner_->submit(s, op).keep(std::move(header_request));
  }

  // The abort tells every other rank, also one that waits for this rank in another call.
  static void refuse(Inner& inner, std::string const& message) {
    if (message.empty()) return;
    inner.abort(message);
    throw error(message);
  }

  using base::inner_;
  checked_options options_;
  std::vector<int> names_;  // world rank of each rank
  std::uint64_t calls_ = 0;
};

}  // namespace parallel
