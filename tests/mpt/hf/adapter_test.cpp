// Adapters that PEFT wrote, with the models of the golden files: the logits must be those of
// transformers, written by tests/reference/make_lora_golden.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <mpt/hf/convert.hpp>
#include <mpt/hf/names.hpp>
#include <nlohmann/json.hpp>
#include <parallel/checkpoint/format/safetensors.hpp>
#include <parallel/support/files.hpp>

#include "support/golden/golden.hpp"
#include "support/logits.hpp"

namespace adapter_test {
namespace {

namespace fs = std::filesystem;
namespace hf = mpt::hf;
using parallel::index;

/// An adapter that PEFT wrote with its golden numbers, and a copy of the model that it adapts.
struct golden {
  explicit golden(std::string const& name)
      : adapter(test::golden_folder() / "lora" / name), numbers(adapter / "golden.safetensors") {
    std::string form;
    for (auto const& [key, value] : numbers.metadata())
      if (key == "base") form = value;
    parallel::checkpoint::safetensors_file const file(test::golden_folder() /
                                                      ("mpt/" + form + ".safetensors"));
    hf::export_options options{.type = hf::precision::fp32};
    for (auto const& [key, value] : file.metadata())
      if (key == "config") options.config = nlohmann::json::parse(value);
    std::vector<hf::named_shape> tensors;
    for (auto const& tensor : file.tensors())
      if (tensor.name.starts_with("param/"))
        tensors.push_back({tensor.name.substr(6), tensor.extents});
    hf::hf_export(
        model, tensors,
        [&](std::string const& tensor, index begin, std::span<float> out) {
          file.read("param/" + tensor, begin, out);
        },
        options);
  }

  /// The largest difference between a model's logits and the reference's.
  [[nodiscard]] double distance(mpt::model_source const& source) const {
    auto const& shape = numbers.at("input_ids").extents;
    test::text input{
        .ids = std::vector<std::int32_t>(static_cast<std::size_t>(numbers.at("input_ids").size())),
        .length = shape.at(1)};
    numbers.read_bytes("input_ids", 0, std::ssize(input.ids),
                       std::as_writable_bytes(std::span(input.ids)));
    std::vector<float> expected(static_cast<std::size_t>(numbers.at("logits").size()));
    numbers.read("logits", 0, std::span(expected));
    auto const found = test::logits_of(source, input);
    REQUIRE(found.size() == expected.size());
    double largest = 0;
    for (std::size_t i = 0; i < found.size(); ++i)
      largest = std::max(largest, static_cast<double>(std::abs(found[i] - expected[i])));
    return largest;
  }

  test::temporary_folder folder;
  fs::path adapter, model = folder / "model";
  parallel::checkpoint::safetensors_file numbers;
};

TEST_CASE("PEFT adapter: logits are transformers', with the adapter separate and merged") {
  for (std::string const name : {"all", "stable", "patterns"}) {
    CAPTURE(name);
    golden const peft(name);
    mpt::model_source const source(peft.model, peft.adapter);
    CHECK(peft.distance(source) < 2e-5);
    CHECK(peft.distance(mpt::model_source(peft.model)) > 0.1);
    mpt::export_hugging_face(source, peft.folder / "merged", {});
    mpt::model_source const merged(peft.folder / "merged");
    CHECK(!merged.config().lora);
    CHECK(peft.distance(merged) < 2e-5);
  }
}

TEST_CASE("PEFT adapter: an exported folder has PEFT's names, shapes and values and its model") {
  golden const peft("all");
  mpt::model_source const source(peft.model, peft.adapter);
  auto const out = peft.folder / "adapter";
  mpt::export_adapter(source, out, {.base = peft.model});
  parallel::checkpoint::safetensors_file const exported(out / "adapter_model.safetensors");
  parallel::checkpoint::safetensors_file const original(peft.adapter / "adapter_model.safetensors");
  CHECK(exported.tensors().size() == original.tensors().size());
  for (auto const& tensor : original.tensors()) {
    CAPTURE(tensor.name);
    CHECK(exported.at(tensor.name).extents == tensor.extents);
    std::vector<float> a(static_cast<std::size_t>(tensor.size())), b(a.size());
    exported.read(tensor.name, 0, std::span(a));
    original.read(tensor.name, 0, std::span(b));
    CHECK(a == b);
  }
  mpt::model_source const adapter_only(out);  // the adapter's folder names its model
  CHECK(adapter_only.path() == peft.model);
  CHECK(peft.distance(adapter_only) < 2e-5);
  std::vector<std::string> files;
  for (auto const& entry : fs::directory_iterator(out)) files.push_back(entry.path().filename());
  std::ranges::sort(files);
  CHECK(files == std::vector<std::string>{"adapter_config.json", "adapter_model.safetensors"});
}

TEST_CASE("PEFT adapter: ranks and alphas of layers are written and read again") {
  golden const peft("patterns");
  mpt::export_adapter(mpt::model_source(peft.model, peft.adapter), peft.folder / "adapter", {});
  auto const written = mpt::read_adapter_json(peft.folder / "adapter");
  auto const original = mpt::read_adapter_json(peft.adapter);
  CHECK(written.at("rank_pattern") == original.at("rank_pattern"));
  CHECK(written.at("alpha_pattern") == original.at("alpha_pattern"));
  CHECK(peft.distance(mpt::model_source(peft.model, peft.folder / "adapter")) < 2e-5);
  auto edited_config = original;
  edited_config.erase("alpha_pattern");  // without them it is another model
  fs::copy(peft.adapter, peft.folder / "edited");
  test::write_all(peft.folder / "edited/adapter_config.json", edited_config.dump());
  CHECK(peft.distance(mpt::model_source(peft.model, peft.folder / "edited")) > 0.01);
}

TEST_CASE("PEFT adapter: one that does not fit the model is refused with the layer or tensor") {
  golden const peft("all");
  golden const other("stable");  // its model has one layer, not two
  auto const refusal = [](fs::path const& model, fs::path const& adapter) {
    return test::message_of([&] {
      mpt::model_source const source(model, adapter);
      source.require_tensors(hf::shapes_of(source.config()));
    });
  };
  CHECK(test::contains(refusal(other.model, peft.adapter),
                       "target_modules: 'transformer.blocks.1.attn.Wqkv' is no linear layer"));
  CHECK(test::contains(refusal(peft.model, peft.model), "holds no adapter_config.json"));
  CHECK(test::contains(refusal(peft.adapter, {}),
                       "base_model_name_or_path is '', no folder on this machine; name the "
                       "model's folder and give this one as its adapter (--adapter)"));
  auto const copy = peft.folder / "copy";
  fs::copy(peft.adapter, copy);
  auto const change = [&](char const* key, nlohmann::json const& value) {
    auto json = mpt::read_adapter_json(peft.adapter);
    json[key] = value;
    test::write_all(copy / "adapter_config.json", json.dump());
  };
  change("r", 5);
  CHECK(test::contains(refusal(peft.model, copy),
                       "lora_A.weight\" has shape [4, 32], expected [5, 32]"));
  change("target_modules", {"Wqkv"});
  CHECK(test::contains(refusal(peft.model, copy), "\" belongs to no adapter of this model"));
  change("target_modules", "all-linear");
  CHECK(refusal(peft.model, copy).empty());
  fs::remove(copy / "adapter_model.safetensors");
  CHECK(test::contains(refusal(peft.model, copy), "adapter_model.safetensors"));
}

}  // namespace
}  // namespace adapter_test
