// single: the communicator of one rank alone.
//
// Programs written for many ranks run on it unchanged: reductions and broadcasts leave their data
// as it is, scatters and gathers copy. Everything still goes through the stream, so that waiting
// and the order of work are the same as with many ranks.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/comm/collectives.hpp>
#include <parallel/comm/coloring.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/comm/detail/moving.hpp>

namespace parallel {

class single : public collectives<single, host::stream> {
 public:
  [[nodiscard]] int rank() const { return 0; }
  [[nodiscard]] int size() const { return 1; }
  [[nodiscard]] std::string_view name() const { return name_; }

  /// Nobody waits for anybody: does nothing.
  void abort(std::string const&) {}

  /// Enqueues `op`.
  request submit(host::stream& s, operation const& op) {
    return detail::enqueue(s, {}, op, [op, mover = detail::moving(s)] {
      for_each_part(op, [&](operation const& part) {
        if (part.out_type() == part.type)
          mover.copy(part.out, part.in, part.bytes());
        else
          mover.combine(part.type, part.combine, {&part.out, 1}, {&part.in, 1}, part.count);
      });
      mover.finish();
    });
  }

  /// See `has_split`: a rank alone is its own part.
  [[nodiscard]] single split(coloring const&, std::string name = {}) {
    single out;
    out.name_ = std::move(name);
    return out;
  }

  [[nodiscard]] signature_exchange open_exchange(host::stream const* = nullptr) {
    return [](signature const& mine) { return std::vector<signature>{mine}; };
  }

 private:
  std::string name_;  // of the axis
};

static_assert(has_collectives<single, float> && has_submit<single> && has_split<single>);

}  // namespace parallel
