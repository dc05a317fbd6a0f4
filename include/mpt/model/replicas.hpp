// replicas: divides the ranks of a program that runs a model without training it into replicas. A
// replica is a number of consecutive ranks that hold the slices of one model along the tensor axis
// and read the same texts together; different replicas read different texts.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include <mpt/model/groups.hpp>
#include <parallel/comm/coloring.hpp>
#include <parallel/comm/comm_stream.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/core/error.hpp>
#include <parallel/device/host/stream.hpp>

namespace mpt {

/// As in run_mesh, ranks are connected twice, or by one communicator for both: for control, whose
/// messages are in host memory, and for exchanges of device memory.
template <class Device, class Comm = any_communicator>
class replicas {
 public:
  /// `tensor`: the number of ranks of a replica. Collective over `control` and `exchanges`, which
  /// connect the same ranks in the same order and must outlive this object. Throws unless `tensor`
  /// divides the number of ranks.
  replicas(any_communicator& control, Comm& exchanges, Device const& device, int tensor)
      : control_(control), tensor_(tensor) {
    require(tensor > 0 && control.size() % tensor == 0, control.size(),
            " ranks cannot hold models of ", tensor, " ranks each; use a multiple of ", tensor);
    if (tensor == 1) return;
    parallel::coloring const replica_of_rank([tensor](int rank) { return rank / tensor; });
    model_control_ = control.split(replica_of_rank, "model");
    model_exchanges_ = exchanges.split(replica_of_rank);
    for (int i = 0; i < 2; ++i) streams_.emplace_back(parallel::comm_options<Comm>(device));
  }
  replicas(replicas&&) = delete;

  /// The groups for the layers of this rank's model; valid while this object lives.
  [[nodiscard]] basic_model_groups<Comm> groups() {
    basic_model_groups<Comm> out;
    if (model_exchanges_) out.tensor.group = {*model_exchanges_, streams_[0], streams_[1]};
    return out;
  }

  [[nodiscard]] any_communicator& ranks() { return control_; }
  /// The ranks of this rank's replica, for exchanges of host memory; null: it is a single rank.
  [[nodiscard]] any_communicator* model_ranks() {
    return model_control_ ? &*model_control_ : nullptr;
  }
  /// The number of this rank's replica; count: the number of replicas.
  [[nodiscard]] int index() const { return control_.rank() / tensor_; }
  [[nodiscard]] int count() const { return control_.size() / tensor_; }

  /// Returns the text of every replica's first rank, by replica. Collective over all ranks.
  [[nodiscard]] std::vector<std::string> gather(std::string const& text) {
    auto const texts = parallel::gather_texts(control_, control_stream_, text);
    std::vector<std::string> out;
    for (std::size_t first = 0; first < texts.size(); first += static_cast<std::size_t>(tensor_))
      out.push_back(texts[first]);
    return out;
  }

 private:
  any_communicator& control_;
  int tensor_;
  parallel::host::stream control_stream_;
  std::optional<any_communicator> model_control_;
  std::optional<Comm> model_exchanges_;
  std::deque<parallel::comm_stream<Device, Comm>> streams_;
};

}  // namespace mpt
