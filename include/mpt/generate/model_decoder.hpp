// model_decoder: a decoder for a model whose weights are in memory, complete or this rank's slices
// along the tensor axis.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <mpt/generate/decoder.hpp>
#include <mpt/generate/generate.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/device/host/stream.hpp>
#include <parallel/train/plan.hpp>

namespace mpt {

template <class T, class Device, class Comm = any_communicator>
class model_decoder : private arena, public decoder<T, Device, Comm> {
 public:
  using stream_type = typename Device::stream_type;

  /// All arguments must outlive the decoder. `tensor`: the ranks that hold slices of the model,
  /// which read the same texts together; null: this rank holds the whole model. The decoder
  /// allocates decoder_bytes on the device.
  model_decoder(model<T, Comm> const& net, Device& device, stream_type& stream, decoder_room room,
                any_communicator* tensor = nullptr)
      : arena(device.template allocate<std::byte>(memory_bytes(net, room))),
        decoder<T, Device, Comm>(
            net, device, *this, room, {train::whole_model(net)},
            {[this, &net, &stream](microbatch const& batch) {
               train::statistics<double> unused;
               arena& memory = *this;
               context<stream_type> c{stream, memory, pass::inference, {}, batch.length};
               train::evaluate_microbatch(net, c, batch, unused);
               stream.synchronize();
             },
             [this, tensor](std::span<float> logits) {
               if (tensor != nullptr && tensor->size() > 1)
                 tensor->all_reduce(exchanges_, logits, parallel::reduction::sum).wait();
             }}) {}

 private:
  [[nodiscard]] static std::size_t memory_bytes(model<T, Comm> const& net, decoder_room room) {
    return decoder_bytes(net, room, {train::whole_model(net)}, [&](microbatch const& batch) {
      return train::plan_evaluation(net, batch);
    });
  }

  parallel::host::stream exchanges_;
};

/// Continues one prompt with a model whose weights are in memory; returns the new ids.
template <class T, class Device>
[[nodiscard]] std::vector<std::int32_t> generate(model<T> const& net, Device& device,
                                                 typename Device::stream_type& stream,
                                                 std::vector<std::int32_t> const& prompt,
                                                 generation_options const& options) {
  index const longest = net.config().max_seq_len;
  check_prompt(prompt.size(), longest);
  auto const length = static_cast<index>(prompt.size());
  model_decoder<T, Device> reader(
      net, device, stream, {.tokens = longest_text(length, options.max_new_tokens, longest)});
  return generate(reader, std::span(&prompt, 1), options).front();
}

}  // namespace mpt
