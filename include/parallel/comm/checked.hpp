// checked: every call is agreed upon by all ranks, but splits by colors that they know anyway.
//
// In each collective the ranks exchange signatures (operation, element type, count, reduction,
// root, place in the order of calls, call site): before it, or, where the communicator can, while
// it runs and before it ends. If they differ, every rank throws one sentence that names the call
// sites, what differs and which ranks; if a rank is missing, the others say so when the deadline
// passes. Before each message the sender tells the receiver its signature. Cost: one exchange of
// 256 bytes per rank and call, and where it comes before the call its time.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
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

/// Whether ranks can compare what they call while the call runs.
template <class C>
concept compares_beside = has_submit<C> &&
    requires(C c, typename C::stream_type& s, operation op, signature mine,
             std::string (*judge)(std::vector<signature> const&)) {
  { c.submit_compared(s, op, mine, judge) } -> std::same_as<typename C::request_type>;
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
    if constexpr (compares_beside<Inner>)
      return inner_->submit_compared(
          s, op, named(op, calls_++),
          [names = names_, sites = options_.sites](std::vector<signature> const& all) {
            return disagreement(all, sites, names);
          });
    s.enqueue([exchange = inner_->open_exchange(&s), mine = named(op, calls_++), names = names_,
               sites = options_.sites,
               inner = inner_] { refuse(*inner, disagreement(exchange(mine), sites, names)); });
    return inner_->submit(s, op);
  }

  [[nodiscard]] signature_exchange open_exchange(stream_type const* on = nullptr) {
    return inner_->open_exchange(on);
  }

  /// See `has_split`.
  [[nodiscard]] checked split(coloring const& by, std::string name = {}) requires has_split<Inner> {
    return checked(inner_->split(by, std::move(name)), options_);
  }

 private:
  // The signature with ranks named as the world does.
  [[nodiscard]] signature named(operation const& op, std::uint64_t number) const {
    auto out = signature_of(op, number, this->name());
    if (op.peer >= 0) out.peer = world_rank(op.peer);
    return out;
  }

  // Messages of one tag keep their order, so a header on the same tag comes before its payload.
  request_type submit_message(stream_type& s, operation const& op) {
    auto const mine = std::make_shared<signature const>(named(op, 0));
    auto const header = std::make_shared<signature>(*mine);
    operation first = op;
    first.type = dtype::u8;
    first.count = sizeof *header;
    first.on_behalf_of = mine;
    first.sent = nullptr;  // the check is no traffic of the caller's
    if (op.kind == operation_kind::send)
      first.in = header.get();
    else
      first.out = header.get();
    auto sent_first = std::make_shared<request_type>(inner_->submit(s, first).keep(header));
    if (op.kind == operation_kind::recv)
      s.enqueue([header, mine, me = world_rank(rank()), inner = inner_] {
        refuse(*inner, message_disagreement(*header, mine->peer, *mine, me));
      });
    return inner_->submit(s, op).keep(std::move(sent_first));  // done before, as the stream is
  }

  // Everybody else learns it too: who waits for this rank elsewhere, or has gone on.
  static void refuse(Inner& inner, std::string const& message) {
    if (message.empty()) return;
    inner.abort(message);
    throw error(message);
  }

  using base::inner_;
  checked_options options_;
  std::vector<int> names_;  // of the ranks, in the world
  std::uint64_t calls_ = 0;
};

}  // namespace parallel
