// loaded_model: the interface of a model with loaded weights for evaluate and generate, independent
// of the element type, the device and the communicator; compiled once for both programs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mpt/eval/evaluation_result.hpp>
#include <mpt/generate/text_model.hpp>
#include <mpt/hf/model_source.hpp>
#include <mpt/model/sequences.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/core/patience.hpp>

#include <devices/device_request.hpp>
#include <launch/launch.hpp>

namespace apps {

/// This rank's part of the model. A replica is a number of consecutive ranks that hold slices of
/// one model.
class loaded_model {
 public:
  using batch_reader = std::function<std::optional<mpt::sequences>()>;

  loaded_model() = default;
  loaded_model(loaded_model&&) = delete;
  virtual ~loaded_model() = default;

  /// The number of this rank's replica; replicas: the number of replicas.
  [[nodiscard]] virtual int replica() const = 0;
  [[nodiscard]] virtual int replicas() const = 0;
  /// Returns the texts of all replicas, in their order, on every rank. Collective over all ranks.
  [[nodiscard]] virtual std::vector<std::string> gather(std::string const& text) = 0;

  /// A text_model over this model, which must outlive it. Collective over the replica.
  [[nodiscard]] virtual std::unique_ptr<mpt::text_model> texts(mpt::decoder_room room) = 0;
  /// mpt::evaluate over all ranks.
  [[nodiscard]] virtual mpt::evaluation_result evaluate(
      batch_reader const& next, std::function<void(std::int64_t)> const& seen) = 0;
  /// mpt::plain_attention_note of the operations that have run.
  [[nodiscard]] virtual std::string attention_note() = 0;
};

struct model_request {
  mpt::model_source const& source;
  bool bf16 = false;  ///< whether elements are bf16; else fp32
  device_request device = {};
  int tensor = 1;  ///< ranks of a replica
};

/// Loads the model and calls work(model). Collective over `ranks`.
void with_loaded_model(model_request const& request, parallel::any_communicator& ranks,
                       parallel::shared_deadline const& deadline, placement const& rank_placement,
                       std::function<void(loaded_model&)> const& work);

}  // namespace apps
