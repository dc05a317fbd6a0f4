// Every form is exported to a folder that names the class to load: transformers' own class where it
// computes the same, else the code that is written next to the weights.
// tests/reference/check_forms.py compares the results of that code with ours; for it
// PARALLELLM_FORMS names a folder that keeps the exports and our logits.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/model/hf.hpp>
#include <mpt/config/model/read_model.hpp>
#include <mpt/config/model/sizes.hpp>
#include <mpt/hf/convert.hpp>
#include <mpt/hf/names.hpp>
#include <mpt/hf/remote_code.hpp>
#include <mpt/model/sequences.hpp>
#include <mpt/yaml/document.hpp>
#include <parallel/checkpoint/format/safetensors_writer.hpp>
#include <parallel/support/files.hpp>
#include <support/data.hpp>
#include <support/golden/golden_forms.hpp>
#include <support/golden/golden_tensor.hpp>
#include <support/logits.hpp>

namespace hf_remote_code_test {

namespace fs = std::filesystem;
namespace hf = mpt::hf;
namespace pc = parallel::checkpoint;
using parallel::index;

using test::text;

/// Logits of the model in a folder, in fp32.
std::vector<float> logits_of(fs::path const& folder, text const& input) {
  return test::logits_of(mpt::model_source(folder), input);
}

/// The folder of the exports: that of PARALLELLM_FORMS, which remains, or a temporary one.
struct export_location {
  test::temporary_folder temporary;
  fs::path folder = temporary.path();

  export_location() {
    if (char const* const folder_name = std::getenv("PARALLELLM_FORMS"); folder_name != nullptr)
      folder = folder_name;
  }

  /// Writes the input and our logits, for the comparison with transformers.
  void save_reference(std::string const& form, text const& input,
                      std::vector<float> const& logits) const {
    std::vector<index> const shape = {std::ssize(input.ids) / input.length, input.length};
    std::vector<pc::tensor_declaration> tensors = {{"input_ids", pc::element_type::i32, shape}};
    if (!input.begins.empty()) tensors.push_back({"sequence_id", pc::element_type::i32, shape});
    tensors.push_back({"logits",
                       pc::element_type::f32,
                       {shape[0], shape[1], std::ssize(logits) / std::ssize(input.ids)}});
    pc::safetensors_writer out(folder / (form + ".safetensors"), tensors, {});
    out.append("input_ids", std::as_bytes(std::span(input.ids)));
    if (!input.begins.empty()) out.append("sequence_id", std::as_bytes(std::span(input.begins)));
    out.append("logits", std::as_bytes(std::span(logits)));
    out.finish();
  }
};

/// Checks that the folder names the class that computes this model, and has the code where
/// transformers has no such class.
void check_model_class(fs::path const& folder, mpt::model_config const& config) {
  auto const json = nlohmann::json::parse(test::read_all(folder / "config.json"));
  bool const is_known = mpt::transformers_gaps(config).empty();
  CHECK(json.at("model_type") == (is_known ? "mpt" : "parallel_mpt"));
  CHECK(json.at("architectures")[0] == (is_known ? "MptForCausalLM" : "ParallelMptForCausalLM"));
  CHECK(json.contains("auto_map") != is_known);
  auto const classes = json.value("auto_map", nlohmann::json::object());
  for (auto const& class_name : classes) {
    auto const name = class_name.get<std::string>();
    auto const dot = name.find('.');
    auto const code = test::read_all(folder / (name.substr(0, dot) + ".py"));
    CHECK(test::contains(code, "\nclass " + name.substr(dot + 1) + "("));
  }
  CHECK(fs::exists(folder / "modeling_parallel_mpt.py") != is_known);
}

/// The ids of a golden file.
text input_of(parallel::checkpoint::safetensors_file const& file) {
  auto const& shape = file.at("input_ids").extents;
  std::vector<std::int64_t> wide(static_cast<std::size_t>(shape[0] * shape[1]));
  file.read_bytes("input_ids", 0, std::ssize(wide), std::as_writable_bytes(std::span(wide)));
  return {{wide.begin(), wide.end()}, shape[1]};
}

/// Checks that logits are the golden file's to 4e-6 of the largest.
void check_logits(std::vector<float> const& logits,
                  parallel::checkpoint::safetensors_file const& file) {
  auto const expected = test::golden_tensor<float>(file, "logits64");
  REQUIRE(logits.size() == expected.size());
  float largest_difference = 0;
  float largest = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    largest_difference = std::max(largest_difference, std::abs(logits[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  CHECK(largest_difference <= 4e-6F * largest);
}

TEST_CASE("remote code: every golden form exports its class and computes the reference's logits") {
  export_location const location;
  int remote_count = 0;
  for (std::string const form : test::golden_forms) {
    CAPTURE(form);
    test::temporary_folder const folder;
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
        folder / "foundry", tensors,
        [&](std::string const& name, index begin, std::span<float> out) {
          file.read("param/" + name, begin, out);
        },
        options);
    mpt::model_source const trained(
        mpt::import_hugging_face(mpt::model_source(folder / "foundry"), folder / "run", {}));
    auto const out = location.folder / form;
    mpt::export_hugging_face(trained, out, {.existing = pc::if_exists::replace});

    check_model_class(out, trained.config());
    if (!mpt::transformers_gaps(trained.config()).empty()) ++remote_count;
    auto input = input_of(file);
    if (trained.config().attn.attn_uses_sequence_id) {
      constexpr std::int32_t separator = 7;  // ends documents in these batches
      mpt::sequences const all_sequences(input.ids, input.length,
                                         {mpt::document_separator::side::ends_document, separator});
      auto const begins = all_sequences.view({0, all_sequences.count()}).document_begins;
      input.begins.assign(begins.begin(), begins.end());
    }
    auto const logits = logits_of(out, input);
    check_logits(logits, file);
    location.save_reference(form, input, logits);
  }
  CHECK(remote_count == 40);  // all but b1, b2, b3
}

TEST_CASE(
    "remote code: every golden form of another family, written as an MPT, is the same model") {
  export_location const location;
  for (std::string const form : test::golden_families) {
    CAPTURE(form);
    parallel::checkpoint::safetensors_file const file(test::golden_folder() /
                                                      (form + ".safetensors"));
    mpt::model_config config;
    for (auto const& [key, value] : file.metadata())
      if (key == "config") config = mpt::from_hf_json(nlohmann::json::parse(value), form).model;
    auto const parameters = hf::shapes_of(config);
    auto const stored = mpt::stored_tensors_of(config, parameters);
    config.family = "mpt";
    auto const name = form.substr(form.find('/') + 1);
    auto const out = location.folder / name;
    hf::hf_export(
        out, parameters,
        [&](std::string const& parameter, index begin, std::span<float> values) {
          stored.layout->read_parameter(
              parameter, begin, values,
              [&](std::string const& tensor, index first, std::span<float> elements) {
                file.read("param/" + tensor, first, elements);
              });
        },
        [&] {
          auto options = mpt::export_options_of(config, "float32", "");
          options.existing = pc::if_exists::replace;
          return options;
        }());
    check_model_class(out, config);
    CHECK(mpt::model_source(out).config() == config);
    auto const input = input_of(file);
    auto const logits = logits_of(out, input);
    check_logits(logits, file);
    location.save_reference(name, input, logits);
  }
}

TEST_CASE("remote code: the nine published shapes at tiny widths are exported with their code") {
  export_location const location;
  for (auto const& size : mpt::model_sizes) {
    auto const form = "mpt-" + std::string(size.name);
    CAPTURE(form);
    auto config = mpt::named_size(size.name);
    config.d_model = 4 * config.n_heads;
    config.n_layers = 2;
    config.vocab_size = 97;
    config.max_seq_len = 16;
    if (auto const data = test::data_folder(); !data.empty()) {
      auto const root = mpt::load_document(
          data / "mpt/yamls/pretrain" / (form + ".yaml"),
          std::vector<std::string>{"model.d_model=" + std::to_string(config.d_model),
                                   "model.n_layers=2", "model.vocab_size=97",
                                   "variables.max_seq_len=16"});
      mpt::config_report report;
      mpt::config_reader reader(root, "", report);
      auto section = reader.section("model");
      CHECK(mpt::read_model(section) == config);
    } else {
      MESSAGE("the YAMLs are not compared: no ../shared/data");
    }
    std::mt19937 random(static_cast<unsigned>(config.n_heads));
    std::normal_distribution<float> normal(0.0F, 0.3F);
    test::temporary_folder const folder;
    hf::hf_export(folder / "start", mpt::hf::shapes_of(config),
                  [&](std::string const&, index, std::span<float> out) {
                    std::ranges::generate(out, [&] { return normal(random); });
                  },
                  {.type = hf::precision::fp32, .config = mpt::to_hf_json(config, "float32")});
    mpt::model_source const trained(
        mpt::import_hugging_face(mpt::model_source(folder / "start"), folder / "run", {}));
    auto const out = location.folder / form;
    mpt::export_hugging_face(trained, out, {.existing = pc::if_exists::replace});
    check_model_class(out, config);
    CHECK(mpt::model_source(out).config() == config);
    text input{std::vector<std::int32_t>(32), 16};
    std::ranges::generate(input.ids, [&] { return static_cast<std::int32_t>(random() % 97U); });
    auto const logits = logits_of(out, input);
    CHECK(logits == logits_of(folder / "start", input));
    CHECK(*std::ranges::max_element(logits) > 1.0F);
    location.save_reference(form, input, logits);
  }
}

TEST_CASE("export in float16: values round to nearest, and values that do not fit are refused") {
  test::temporary_folder const folder;
  mpt::model_config config;
  config.d_model = 8;
  config.n_heads = 2;
  config.n_layers = 1;
  config.vocab_size = 11;
  config.max_seq_len = 4;
  float largest = 1.0F / 3.0F;
  auto const write = [&](fs::path const& target) {
    hf::hf_export(
        target, mpt::hf::shapes_of(config),
        [&](std::string const&, index, std::span<float> out) { std::ranges::fill(out, largest); },
        {.type = hf::precision::fp32, .config = mpt::to_hf_json(config, "float32")});
  };
  write(folder / "a");
  mpt::export_hugging_face(mpt::model_source(folder / "a"), folder / "half", {.dtype = "float16"});
  mpt::model_source const half(folder / "half");
  CHECK(half.dtype() == "float16");
  std::vector<float> element(1);
  half.read("transformer.wte.weight", 3, std::span(element));
  CHECK(element[0] == 0.333251953125F);
  largest = 70000.0F;
  write(folder / "b");
  CHECK(test::contains(test::message_of([&] {
                         mpt::export_hugging_face(mpt::model_source(folder / "b"), folder / "bad",
                                                  {.dtype = "float16"});
                       }),
                       "has the value 70000, which float16 cannot hold"));
  CHECK_FALSE(fs::exists(folder / "bad"));
  CHECK(test::contains(test::message_of([&] {
                         mpt::export_hugging_face(mpt::model_source(folder / "a"), folder / "bad",
                                                  {.dtype = "int8"});
                       }),
                       "the type of exported weights is 'int8'; choose float32"));
}

}  // namespace hf_remote_code_test
