// single: the communicator of a single rank.
//
// Programs written for many ranks run on it unchanged: reductions and broadcasts leave their data
// unchanged, scatters and gathers copy. Everything still goes through the stream, so that waiting
// and the order of work are the same as with many ranks.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/comm/collectives.hpp>
#include <parallel/comm/coloring.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/comm/detail/exchange_mover.hpp>

namespace parallel {

class single : public collectives<single, host::stream> {
 public:
  [[nodiscard]] int rank() const { return 0; }
  [[nodiscard]] int size() const { return 1; }
  [[nodiscard]] std::string_view name() const { return name_; }

  /// Does nothing, since no rank waits for another.
  void abort(std::string const&) {}

  request submit(host::stream& s, operation const& op) {
    return detail::enqueue(s, {}, op, [op, mover = detail::exchange_mover(s)] {
      for_each_member(op, [&](operation const& member) {
        if (member.out_type() == member.type)
          mover.copy(member.out, member.in, member.bytes());
        else
          mover.combine(member.type, member.combine, {&member.out, 1}, {&member.in, 1},
                        member.count);
      });
      mover.finish();
    });
  }

  /// See `has_split`: the sub-communicator is the same single rank.
  [[nodiscard]] single split(coloring const&, std::string name = {}) {
    single out;
    out.name_ = std::move(name);
    return out;
  }

  [[nodiscard]] signature_exchange open_exchange(host::stream const* = nullptr) {
    return [](signature const& local) { return std::vector<signature>{local}; };
  }

 private:
  std::string name_;  // of the axis
};

static_assert(has_collectives<single, float> && has_submit<single> && has_split<single>);

}  // namespace parallel
