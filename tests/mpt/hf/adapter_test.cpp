// Adapters that PEFT wrote, beside the models of the golden files: our logits are transformers'.
// Golden numbers by tests/reference/make_lora_golden.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <mpt/hf/convert.hpp>
#include <nlohmann/json.hpp>
#include <parallel/checkpoint/safetensors.hpp>
#include <parallel/support/files.hpp>
#include <mpt/hf/shapes.hpp>

#include "support/golden.hpp"
#include "support/logits.hpp"

namespace adapter_test {
namespace {

namespace fs = std::filesystem;
namespace hf = mpt::hf;
using parallel::index;

/// An adapter of PEFT's with its numbers, and a copy of the model beside which it stands.
struct golden {
  explicit golden(std::string const& name)
      : adapter(test::golden_folder() / "lora" / name), numbers(adapter / "golden.safetensors") {
    std::string form;
    for (auto const& [key, value] : numbers.metadata())
      if (key == "base") form = value;
    parallel::checkpoint::safetensors_file const file(test::golden_folder() /
                                                      ("mpt_" + form + ".safetensors"));
    hf::export_options how{.type = hf::precision::fp32};
    for (auto const& [key, value] : file.metadata())
      if (key == "config") how.config = nlohmann::json::parse(value);
    std::vector<hf::named_shape> tensors;
    for (auto const& tensor : file.tensors())
      if (tensor.name.starts_with("param/"))
        tensors.push_back({tensor.name.substr(6), tensor.extents});
    hf::hf_export(
        model, tensors,
        [&](std::string const& tensor, index begin, std::span<float> out) {
          file.read("param/" + tensor, begin, out);
        },
        how);
  }

  /// How far the logits of a model are from the reference's, by the largest.
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
    double worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i)
      worst = std::max(worst, static_cast<double>(std::abs(found[i] - expected[i])));
    return worst;
  }

  test::temporary_folder folder;
  fs::path adapter, model = folder / "model";
  parallel::checkpoint::safetensors_file numbers;
};

TEST_CASE("an adapter of PEFT's gives transformers' logits, beside the model and merged into it") {
  for (std::string const name : {"all", "stable", "patterns"}) {
    CAPTURE(name);
    golden const g(name);
    mpt::model_source const source(g.model, g.adapter);
    CHECK(g.distance(source) < 2e-5);
    CHECK(g.distance(mpt::model_source(g.model)) > 0.1);
    mpt::export_hugging_face(source, g.folder / "merged", {});
    mpt::model_source const merged(g.folder / "merged");
    CHECK(!merged.config().lora);
    CHECK(g.distance(merged) < 2e-5);
  }
}

TEST_CASE(
    "what is written is PEFT's folder: the same names, shapes and values, and it names its "
    "model") {
  golden const g("all");
  mpt::model_source const source(g.model, g.adapter);
  auto const out = g.folder / "adapter";
  mpt::export_adapter(source, out, {.base = g.model});
  parallel::checkpoint::safetensors_file const ours(out / "adapter_model.safetensors");
  parallel::checkpoint::safetensors_file const theirs(g.adapter / "adapter_model.safetensors");
  CHECK(ours.tensors().size() == theirs.tensors().size());
  for (auto const& tensor : theirs.tensors()) {
    CAPTURE(tensor.name);
    CHECK(ours.at(tensor.name).extents == tensor.extents);
    std::vector<float> a(static_cast<std::size_t>(tensor.size())), b(a.size());
    ours.read(tensor.name, 0, std::span(a));
    theirs.read(tensor.name, 0, std::span(b));
    CHECK(a == b);
  }
  mpt::model_source const alone(out);  // it says beside which model
  CHECK(alone.path() == g.model);
  CHECK(g.distance(alone) < 2e-5);
  std::vector<std::string> files;
  for (auto const& entry : fs::directory_iterator(out)) files.push_back(entry.path().filename());
  std::ranges::sort(files);
  CHECK(files == std::vector<std::string>{"adapter_config.json", "adapter_model.safetensors"});
}

TEST_CASE("ranks and alphas by layer are written with an adapter, and read again") {
  golden const g("patterns");
  mpt::export_adapter(mpt::model_source(g.model, g.adapter), g.folder / "adapter", {});
  auto const written = mpt::read_adapter_json(g.folder / "adapter");
  auto const theirs = mpt::read_adapter_json(g.adapter);
  CHECK(written.at("rank_pattern") == theirs.at("rank_pattern"));
  CHECK(written.at("alpha_pattern") == theirs.at("alpha_pattern"));
  CHECK(g.distance(mpt::model_source(g.model, g.folder / "adapter")) < 2e-5);
  auto without = theirs;
  without.erase("alpha_pattern");  // as advice to edit it would have it: another model
  fs::copy(g.adapter, g.folder / "edited");
  test::write_all(g.folder / "edited/adapter_config.json", without.dump());
  CHECK(g.distance(mpt::model_source(g.model, g.folder / "edited")) > 0.01);
}

TEST_CASE("an adapter that does not fit the model is refused, saying where") {
  golden const g("all");
  golden const other("stable");  // of one layer, not two
  auto const refuses = [](fs::path const& model, fs::path const& adapter) {
    return test::message_of([&] {
      mpt::model_source const source(model, adapter);
      source.require_tensors(hf::shapes_of(source.config()));
    });
  };
  CHECK(test::contains(refuses(other.model, g.adapter),
                       "target_modules: 'transformer.blocks.1.attn.Wqkv' is no linear layer"));
  CHECK(test::contains(refuses(g.model, g.model), "holds no adapter_config.json"));
  CHECK(test::contains(refuses(g.adapter, {}),
                       "base_model_name_or_path is '', no folder on this machine; name the "
                       "model's folder and give this one as its adapter (--adapter)"));
  auto const copy = g.folder / "copy";
  fs::copy(g.adapter, copy);
  auto const change = [&](char const* key, nlohmann::json const& value) {
    auto json = mpt::read_adapter_json(g.adapter);
    json[key] = value;
    test::write_all(copy / "adapter_config.json", json.dump());
  };
  change("r", 5);
  CHECK(test::contains(refuses(g.model, copy),
                       "lora_A.weight\" has shape [4, 32], expected [5, 32]"));
  change("target_modules", {"Wqkv"});
  CHECK(test::contains(refuses(g.model, copy), "\" belongs to no adapter of this model"));
  change("target_modules", "all-linear");
  CHECK(refuses(g.model, copy).empty());
  fs::remove(copy / "adapter_model.safetensors");
  CHECK(test::contains(refuses(g.model, copy), "adapter_model.safetensors"));
}

}  // namespace
}  // namespace adapter_test
