// Logits of a model in a folder, in fp32 on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <mpt/hf/model_source.hpp>
#include <mpt/model/model.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/train/weights.hpp>

namespace test {

/// Token ids of a few sequences, with documents that begin at `begins` or none.
struct text {
  std::vector<std::int32_t> ids;
  parallel::index length = 0;
  std::vector<std::int32_t> begins = {};
};

[[nodiscard]] inline std::vector<float> logits_of(mpt::model_source const& source,
                                                  text const& input) {
  parallel::host::device device;
  parallel::host::stream stream(device.compute_options());
  mpt::model<float> net(source.config());
  parallel::train::weights<float> const weights(net, device);
  source.load(weights, device);
  auto const storage = device.allocate<std::byte>(std::size_t{64} << 20);
  parallel::arena memory(storage);
  parallel::context<parallel::host::stream> c{
      stream, memory, parallel::pass::inference, {}, input.length};
  auto const rows = std::ssize(input.ids);
  mpt::microbatch const batch{.ids = {input.ids.data(), {rows}},
                              .labels = {},
                              .sequences = rows / input.length,
                              .length = input.length,
                              .document_begins = input.begins};
  parallel::matrix_view<float const> x = net.embed(c, batch);
  std::vector<mpt::model<float>::block::saved> states(net.num_blocks());
  auto links =
      net.make_shared_activations(c, batch, 0, static_cast<parallel::index>(net.num_blocks()));
  for (std::size_t i = 0; i < net.num_blocks(); ++i) {
    net.attach(links, static_cast<parallel::index>(i), states[i]);
    x = net.at(i).forward(c, x, states[i]);
  }
  auto const y = net.logits(c, x);
  stream.synchronize();
  return {y.span().begin(), y.span().end()};
}

}  // namespace test
