// drawn_model: a small MPT, or a rank's slices of it, with random weights that depend on their
// names only.
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

/// Form 0 has learned positions, 1 ALiBi, 2 rotary positions and norms of queries and keys, 3
/// rotary positions alone.
inline mpt::model_config small_form(int form) {
  mpt::model_config config;
  config.d_model = 24;
  config.n_heads = 6;
  config.n_layers = 2;
  config.vocab_size = 31;
  config.max_seq_len = 40;
  config.learned_pos_emb = form == 0;
  config.attn.alibi = form == 1;
  if (form >= 2) config.attn.rope.emplace();
  config.attn.qk_ln = form == 2;
  return config;
}

template <class Device = parallel::host::device, class Comm = parallel::any_communicator>
struct drawn_model {
  explicit drawn_model(mpt::model_config config, mpt::basic_model_groups<Comm> groups = {},
                       Device source_device = {})
      : device(std::move(source_device)),
        stream(device.compute_options()),
        net(std::move(config), groups),
        held(net, device) {
    held.for_each([this](auto const& parameter, auto values) {
      bool const norm = parameter.name.find("norm") != std::string::npos ||
                        parameter.name.find("_ln.") != std::string::npos;
      parallel::philox const random(7, parallel::stream_id(parameter.name));
      std::vector<float> drawn(values.size());
      parameter.for_each_run(0, parameter.size(), [&](auto first, auto count, auto global) {
        for (parallel::index i = 0; i < count; ++i)
          drawn[static_cast<std::size_t>(first + i)] =
              (norm ? 1.0F : 0.0F) +
              1.6F * (random.uniform(static_cast<std::uint64_t>(global + i)) - 0.5F);
      });
      device.upload(values, std::span<float const>(drawn));
    });
  }
  Device device;
  typename Device::stream_type stream;
  mpt::model<float, Comm> net;
  parallel::train::weights<float> held;
};

}  // namespace test
