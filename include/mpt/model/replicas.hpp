// replicas: the ranks of a program that runs a model without training it. So many that follow one
// another hold the slices of one model along the tensor axis, and read the same texts together;
// each such replica reads texts of its own.
#pragma once

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

/// As in run_mesh ranks are connected twice, or by one communicator for both: for control, where
/// what they say to each other lies in the host's memory, and for exchanges of the device's memory.
template <class Device, class Comm = any_communicator>
class replicas {
 public:
  /// `tensor`: ranks of a replica. Collective over `control` and `exchanges`, which connect the
  /// same ranks in the same order and must outlive it. Throws when replicas do not take up all
  /// ranks.
  replicas(any_communicator& control, Comm& exchanges, Device const& device, int tensor)
      : control_(control), tensor_(tensor) {
    require(tensor > 0 && control.size() % tensor == 0, control.size(),
            " ranks cannot hold models of ", tensor, " ranks each; use a multiple of ", tensor);
    if (tensor == 1) return;
    parallel::coloring const by([tensor](int rank) { return rank / tensor; });
    control_of_model_ = control.split(by, "model");
    of_model_ = exchanges.split(by);
    for (int i = 0; i < 2; ++i) streams_.emplace_back(parallel::comm_options<Comm>(device));
  }
  replicas(replicas const&) = delete;
  replicas& operator=(replicas const&) = delete;

  /// For the layers of this rank's model; valid while this lives.
  [[nodiscard]] basic_model_groups<Comm> groups() {
    basic_model_groups<Comm> out;
    if (of_model_) out.tensor.group = {*of_model_, streams_[0], streams_[1]};
    return out;
  }

  [[nodiscard]] any_communicator& all() { return control_; }
  /// The ranks that hold this rank's model, for what lies in the host's memory; null: it is alone.
  [[nodiscard]] any_communicator* of_model() {
    return control_of_model_ ? &*control_of_model_ : nullptr;
  }
  /// Which replica this rank is of, and of how many.
  [[nodiscard]] int index() const { return control_.rank() / tensor_; }
  [[nodiscard]] int count() const { return control_.size() / tensor_; }

  /// Every replica's text by replica, on every rank. Collective over all.
  [[nodiscard]] std::vector<std::string> gather(std::string const& text) {
    auto const of_all = parallel::gather_texts(control_, control_stream_, text);
    std::vector<std::string> out;
    for (std::size_t first = 0; first < of_all.size(); first += static_cast<std::size_t>(tensor_))
      out.push_back(of_all[first]);
    return out;
  }

 private:
  any_communicator& control_;
  int tensor_;
  parallel::host::stream control_stream_;
  std::optional<any_communicator> control_of_model_;
  std::optional<Comm> of_model_;
  std::deque<parallel::comm_stream<Device, Comm>> streams_;
};

}  // namespace mpt
