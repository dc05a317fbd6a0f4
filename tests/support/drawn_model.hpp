// drawn_model: a small MPT, or a rank's slices of it, with random weights. A weight depends only on
// the name of its parameter and its place in the whole tensor, so ranks that divide the model draw
// the same values as one rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mpt/model/model.hpp>
#include <parallel/core/philox.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/train/weights.hpp>

namespace test {

/// The position encoding of a small model; with rotary positions it normalises queries and keys.
enum class position_encoding : std::uint8_t { learned, alibi, rotary };
inline constexpr position_encoding position_encodings[] = {
    position_encoding::learned, position_encoding::alibi, position_encoding::rotary};

inline mpt::model_config small_config(position_encoding encoding) {
  mpt::model_config config;
  config.d_model = 24;
  config.n_heads = 6;
  config.n_layers = 2;
  config.vocab_size = 31;
  config.max_seq_len = 40;
  config.learned_pos_emb = encoding == position_encoding::learned;
  config.attn.alibi = encoding == position_encoding::alibi;
  if (encoding == position_encoding::rotary) config.attn.rope.emplace();
  config.attn.qk_ln = encoding == position_encoding::rotary;
  return config;
}

template <class Device = parallel::host::device, class Comm = parallel::any_communicator>
struct drawn_model {
  explicit drawn_model(mpt::model_config config, mpt::basic_model_groups<Comm> groups = {},
                       Device source_device = {})
      : device(std::move(source_device)),
        stream(device.compute_options()),
        net(std::move(config), groups),
        weights(net, device) {
    weights.for_each([this](auto const& parameter, auto values) {
      bool const is_norm = parameter.name.find("norm") != std::string::npos ||
                           parameter.name.find("_ln.") != std::string::npos;
      parallel::philox const random(7, parallel::stream_id(parameter.name));
      std::vector<float> drawn(values.size());  // from -0.8 to 0.8, those of norms around 1
      parameter.for_each_run(0, parameter.size(), [&](auto first, auto count, auto global) {
        for (parallel::index i = 0; i < count; ++i)
          drawn[static_cast<std::size_t>(first + i)] =
              (is_norm ? 1.0F : 0.0F) +
              1.6F * (random.uniform(static_cast<std::uint64_t>(global + i)) - 0.5F);
      });
      device.upload(values, std::span<float const>(drawn));
    });
  }
  Device device;
  typename Device::stream_type stream;
  mpt::model<float, Comm> net;
  parallel::train::weights<float> weights;
};

}  // namespace test
