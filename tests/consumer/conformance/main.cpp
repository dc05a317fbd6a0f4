// A communicator of one's own (here around the library's threads), a right one and a wrong one, and
// a layer of one's own, run through the library's laws.
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include <parallel/comm/coloring.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/conformance/communicator.hpp>
#include <parallel/conformance/device.hpp>
#include <parallel/conformance/failures.hpp>
#include <parallel/conformance/layer.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host/pointwise/elementwise.hpp>

namespace threads = parallel::threads;
namespace conformance = parallel::conformance;

/// Counts calls; a wrong one takes the largest value for the sum of one element type.
class own_communicator : public parallel::collectives<own_communicator> {
 public:
  own_communicator(threads::communicator inner, bool wrong)
      : inner_(std::move(inner)), wrong_(wrong) {}

  int rank() const { return inner_.rank(); }
  int size() const { return inner_.size(); }
  int world_rank(int rank) const { return inner_.world_rank(rank); }
  std::string_view name() const { return inner_.name(); }
  void abort(std::string const& reason) { inner_.abort(reason); }
  long calls() const { return calls_; }

  parallel::request submit(parallel::host::stream& s, parallel::operation op) {
    ++calls_;
    if (wrong_ && op.kind == parallel::operation_kind::reduce_scatter &&
        op.type == parallel::dtype_of<parallel::bf16>)
      op.combine = parallel::reduction::max;
    return inner_.submit(s, op);
  }

  own_communicator split(parallel::coloring const& coloring, std::string name = {}) {
    return {inner_.split(coloring, std::move(name)), wrong_};
  }

 private:
  threads::communicator inner_;
  bool wrong_;
  long calls_ = 0;
};

/// y = 3 x, whose gradient is 3 dy, or wrongly 2 dy.
struct triple {
  using element = std::uint64_t;
  struct saved {};
  std::uint64_t backward_factor = 3;

  static auto scaled(auto& c, parallel::matrix_view<element const> x, element factor) {
    auto y = c.template allocate<element, 2>(x.extents());
    c.stream.enqueue([=] {
      for (parallel::index i = 0; i < x.size(); ++i) y.data()[i] = factor * x.data()[i];
    });
    return y;
  }
  auto forward(auto& c, parallel::matrix_view<element const> x, saved&) const {
    return scaled(c, x, 3);
  }
  auto backward_input(auto& c, parallel::matrix_view<element const> dy, saved&) const {
    return scaled(c, dy, backward_factor);
  }
  void backward_weight(auto&, saved const&) const {}
  void visit_parameters(auto&&) {}
};

/// The error of the laws of communicators for a group of three ranks, or "nothing was thrown".
std::string verdict(bool wrong) {
  return conformance::message_of([&] {
    threads::run(3, [&](threads::communicator& world) {
      own_communicator comm(std::move(world), wrong);
      conformance::check_all(comm, 1000);
      parallel::require(comm.calls() > 500, "the laws made only ", comm.calls(), " calls");
    });
    threads::run(3, [&](threads::communicator& world) {
      conformance::check_abort(own_communicator(std::move(world), wrong),
                               conformance::waiting::in_message);
    });
  });
}

int main() {
  std::string const right = "nothing was thrown";
  auto const sound = verdict(false);
  auto const broken = verdict(true);
  std::printf("the right one: %s\nthe wrong one: %s\n", sound.c_str(), broken.c_str());
  if (sound != right || broken.rfind("reduce_scatter of ", 0) != 0 ||
      broken.find(" bf16, rank ") == std::string::npos)
    return 1;

  parallel::host::device device;
  auto const of_device = conformance::message_of([&] { conformance::check_device(device); });
  auto const layer = [](std::uint64_t factor) {
    return conformance::message_of(
        [&] { conformance::check_ring_layer<parallel::host::stream>(triple{factor}, 4, 3); });
  };
  std::printf("the device: %s\nthe wrong layer: %s\n", of_device.c_str(), layer(2).c_str());
  return of_device == right && layer(3) == right &&
                 layer(2) ==
                     "check_ring_layer: backward_input does not give the gradient of the input"
             ? 0
             : 1;
}
