// MPT on a device, compared with independent implementations: LLM Foundry's modeling code (forms
// a1-a5, c... and d...), transformers' MptForCausalLM (b...) and its models of other families
// (families/...). tests/reference/make_golden.py and make_family_golden.py make the golden numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <mpt/config/model/hf.hpp>
#include <mpt/config/model/read_lora.hpp>
#include <mpt/hf/convert.hpp>
#include <mpt/hf/names.hpp>
#include <mpt/model/model.hpp>
#include <mpt/model/sequences.hpp>
#include <parallel/checkpoint/format/safetensors.hpp>
#include <parallel/comm/single.hpp>
#include <parallel/device/transfer.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/train/stepper.hpp>

#include "support/golden/golden.hpp"
#include "support/golden/golden_forms.hpp"

namespace test {

using parallel::index;

/// The golden file of a form.
[[nodiscard]] inline parallel::checkpoint::safetensors_file golden_file(std::string const& form) {
  bool const is_family = form.find('/') != std::string::npos;
  return parallel::checkpoint::safetensors_file(
      golden_folder() / ((is_family ? form : "mpt/" + form) + ".safetensors"));
}

/// Reads the reference's configuration, in LLM Foundry's names.
[[nodiscard]] inline mpt::model_config golden_config(
    parallel::checkpoint::safetensors_file const& file) {
  mpt::model_config out;
  for (auto const& [key, value] : file.metadata()) {
    if (key != "config") continue;
    auto json = nlohmann::json::parse(value);
    auto const lora = json.value("peft_config", nlohmann::json());
    json.erase("peft_config");
    out = mpt::from_hf_json(json, "golden").model;
    if (!lora.is_null()) out.lora = mpt::from_peft_json(lora, out, "golden");
  }
  return out;
}

/// The model in T on a device, with a golden file's parameters and its batch.
template <class T, class Device>
struct golden_model {
  using stream_type = typename Device::stream_type;
  using stepper_type =
      parallel::train::stepper<mpt::model<T>, Device, parallel::single, parallel::decoupled_adamw>;

  parallel::checkpoint::safetensors_file file;
  Device device;
  stream_type compute;
  parallel::single comm;
  mpt::model<T> net;
  std::optional<mpt::hf::stored_layout> layout;  // of a family's tensors
  stepper_type step;
  parallel::buffer<std::byte> storage;
  parallel::arena memory;
  parallel::buffer<std::int32_t> ids, labels, begins;  // of the device
  std::vector<std::int32_t> sequence_tokens;
  mpt::microbatch batch;

  golden_model(std::string const& form, Device source_device)
      : file(golden_file(form)),
        device(std::move(source_device)),
        compute(device.compute_options()),
        net(golden_config(file)),
        layout(mpt::stored_tensors_of(net.config(), mpt::hf::shapes_of(net.config())).layout),
        step(net, device, comm, parallel::decoupled_adamw{}, {}),
        storage(device.template allocate<std::byte>(std::size_t{64} << 20)),
        memory(storage) {
    for (auto const& unit : step.units())
      for (std::size_t s = 0; s < unit.memory.segments().size(); ++s) {
        auto const& segment = unit.memory.layout().segments()[s];
        parallel::write_from_host(
            device, unit.memory.segments()[s].values.span(), [&](std::span<T> values) {
              segment.for_each_piece(
                  0, segment.size, [&](auto const& p, index, index, index memory_offset) {
                    read_parameter("param/", p.name,
                                   values.subspan(static_cast<std::size_t>(memory_offset),
                                                  static_cast<std::size_t>(p.size())));
                  });
            });
      }
    auto const& shape = file.at("input_ids").extents;
    auto const id_values = integers("input_ids");
    auto const targets = integers("targets");
    ids = on_device(id_values);
    labels = on_device(targets);
    index const rows = std::ssize(id_values);
    batch = {.ids = {ids.data(), {rows}},
             .labels = {labels.data(), {rows}},
             .sequences = static_cast<index>(shape[0]),
             .length = static_cast<index>(shape[1]),
             .loss_tokens = std::ranges::count_if(targets, [](auto l) { return l >= 0; })};
    for (index begin = 0; begin < rows; begin += batch.length)
      sequence_tokens.push_back(static_cast<std::int32_t>(
          std::ranges::count_if(std::span(targets).subspan(static_cast<std::size_t>(begin),
                                                           static_cast<std::size_t>(batch.length)),
                                [](auto l) { return l >= 0; })));
    batch.sequence_tokens = sequence_tokens;
    if (net.config().attn.attn_uses_sequence_id) {
      auto const documents = text();
      auto const begin_values = documents.view({0, batch.sequences}).document_begins;
      begins = on_device({begin_values.begin(), begin_values.end()});
      batch.document_begins = begins.span();
    }
  }

  /// The batch's ids, each with the next one as its label.
  [[nodiscard]] mpt::sequences text() const {
    auto id_values = integers("input_ids");
    if (!net.config().attn.attn_uses_sequence_id) return {std::move(id_values), batch.length};
    using side = mpt::document_separator::side;
    constexpr std::int32_t separator = 7;  // ends documents in these batches
    return {std::move(id_values), batch.length, {side::ends_document, separator}};
  }

  [[nodiscard]] parallel::context<stream_type> context() {
    parallel::context<stream_type> out{compute, memory, parallel::pass::training, {}, batch.length};
    out.sequence_tokens = sequence_tokens;
    return out;
  }

  /// Fills `out` with numbers of the file ("param/", "grad64/", ...) that belong to a parameter.
  template <class U>
  void read_parameter(std::string const& kind, std::string const& name, std::span<U> out) const {
    if (layout)
      return layout->read_parameter(
          name, 0, out, [&](std::string const& tensor, index begin, std::span<U> values) {
            file.read(kind + tensor, begin, values);
          });
    REQUIRE(static_cast<std::size_t>(file.at(stored(kind, name)).size()) == out.size());
    file.read(stored(kind, name), 0, out);
  }

  /// All numbers of one kind that belong to a parameter of this size.
  [[nodiscard]] std::vector<double> golden_of(std::string const& kind, std::string const& name,
                                              std::size_t size) const {
    std::vector<double> out(size);
    read_parameter(kind, name, std::span(out));
    return out;
  }

  /// The name of a parameter's tensor in the file.
  [[nodiscard]] std::string stored(std::string const& kind, std::string const& name) const {
    auto const plain = std::ranges::any_of(
        file.tensors(), [&](auto const& tensor) { return tensor.name == kind + name; });
    return kind + (plain ? name : mpt::hf::fused_name(name));
  }

  [[nodiscard]] std::vector<double> golden(std::string const& tensor) const {
    std::vector<double> out(static_cast<std::size_t>(file.at(tensor).size()));
    file.read(tensor, 0, std::span(out));
    return out;
  }
  [[nodiscard]] std::vector<std::int32_t> integers(std::string const& tensor) const {
    std::vector<std::int64_t> wide(static_cast<std::size_t>(file.at(tensor).size()));
    file.read_bytes(tensor, 0, file.at(tensor).size(), std::as_writable_bytes(std::span(wide)));
    return {wide.begin(), wide.end()};
  }

  /// The losses of routers that are in a record of this batch, over its tokens.
  [[nodiscard]] double router_losses(std::span<double const> record) const {
    if (!net.config().experts) return 0.0;
    auto const experts = static_cast<std::size_t>(net.config().experts->count);
    auto const size =
        static_cast<std::size_t>(parallel::ops::routing_record_size(net.config().experts->count));
    using enum parallel::ops::routing_number;
    double sum = 0.0;
    for (std::size_t begin = 0; begin < record.size(); begin += size)
      for (auto const number : {balance_loss, z_loss})
        sum += record[begin + experts + static_cast<std::size_t>(number)];
    return sum / static_cast<double>(batch.loss_tokens);
  }

  /// The mean loss with those of routers. Leaves the gradients of the mean, times loss tokens, in
  /// the units' buffers.
  [[nodiscard]] double loss() {
    for (auto const& unit : step.units()) unit.memory.clear_gradients(compute);
    auto const shared = device.template allocate_shared<parallel::train::statistics<double>>(1);
    auto& sums = *shared.data();
    auto const record = device.template allocate_shared<double>(
        static_cast<std::size_t>(parallel::train::record_size_of(net)));
    std::ranges::fill(record.span(), 0.0);
    auto c = context();
    c.record = record.span();
    parallel::train::run_microbatch(net, c, batch, sums);
    for (auto const& unit : step.units()) unit.memory.join_uses(compute);
    compute.synchronize();
    CHECK(sums.tokens == batch.loss_tokens);
    return sums.mean_loss() + router_losses(record.span());
  }

  [[nodiscard]] std::vector<double> logits() {
    auto c = context();
    parallel::arena::scope const temporaries(memory);
    parallel::matrix_view<T const> x = net.embed(c, batch);
    std::vector<typename mpt::model<T>::block::saved> states(net.num_blocks());
    auto shared = net.make_shared_activations(c, batch, 0, static_cast<index>(net.num_blocks()));
    for (std::size_t i = 0; i < net.num_blocks(); ++i) {
      net.attach(shared, static_cast<index>(i), states[i]);
      x = net.at(i).forward(c, x, states[i]);
    }
    auto const y = net.logits(c, x);
    compute.synchronize();
    std::vector<double> out;
    parallel::read_on_host(device, y.span(),
                           [&](auto values) { out.assign(values.begin(), values.end()); });
    return out;
  }

  /// Calls f(name, gradient of the mean loss).
  template <class F>
  void for_each_gradient(F&& f) const {
    for_each_piece([](auto const& held) { return held.gradients[0].span(); },
                   [&](std::string const& name, std::vector<double> gradient) {
                     for (auto& g : gradient) g /= static_cast<double>(batch.loss_tokens);
                     f(name, gradient);
                   });
  }

  /// Calls f(name, values) for each parameter.
  template <class F>
  void for_each_parameter(F&& f) const {
    for_each_piece([](auto const& held) { return held.values.span(); }, f);
  }

 private:
  /// Calls f(name, elements) for the elements that select(segment's memory) has of each parameter.
  template <class Select, class F>
  void for_each_piece(Select const& select, F&& f) const {
    for (auto const& unit : step.units())
      for (std::size_t s = 0; s < unit.memory.segments().size(); ++s) {
        auto const& segment = unit.memory.layout().segments()[s];
        parallel::read_on_host(device, select(unit.memory.segments()[s]), [&](auto elements) {
          segment.for_each_piece(0, segment.size,
                                 [&](auto const& p, index, index, index memory_offset) {
                                   auto const begin = elements.begin() + memory_offset;
                                   f(p.name, std::vector<double>(begin, begin + p.size()));
                                 });
        });
      }
  }

  [[nodiscard]] parallel::buffer<std::int32_t> on_device(
      std::vector<std::int32_t> const& values) const {
    auto out = device.template allocate<std::int32_t>(values.size());
    device.upload(out.span(), std::span<std::int32_t const>(values));
    return out;
  }
};

}  // namespace test
