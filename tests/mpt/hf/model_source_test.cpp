// Opens a model in a Hugging Face folder, in a checkpoint, and in a folder of checkpoints.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/model/hf.hpp>
#include <mpt/hf/convert.hpp>
#include <mpt/hf/export.hpp>
#include <mpt/hf/names.hpp>
#include <mpt/model/build.hpp>
#include <mpt/model/model.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/support/files.hpp>
#include <parallel/train/weights.hpp>

namespace model_source_test {

namespace fs = std::filesystem;
namespace hf = mpt::hf;
using parallel::index;

mpt::model_config config() {
  mpt::model_config c;
  c.d_model = 8;
  c.n_heads = 2;
  c.n_layers = 1;
  c.vocab_size = 11;
  c.max_seq_len = 4;
  return c;
}

float element(std::string const& name, index position) {
  return static_cast<float>(name.size()) + static_cast<float>(position) / 8;
}

/// Writes a Hugging Face folder with the configuration `described` and the tensors of `stored`.
void write(fs::path const& folder, mpt::model_config const& described,
           mpt::model_config const& stored) {
  std::vector<hf::named_shape> shapes;
  for (auto const& [name, extents] : mpt::hf::shapes_of(stored)) shapes.push_back({name, extents});
  hf::hf_export(folder, shapes,
                [](std::string const& name, index begin, std::span<float> out) {
                  for (std::size_t i = 0; i < out.size(); ++i)
                    out[i] = element(name, begin + static_cast<index>(i));
                },
                {.type = hf::precision::fp32, .config = mpt::to_hf_json(described, "float32")});
}

/// Checks that every parameter of `source` has the values that `write` writes.
void check(mpt::model_source const& source) {
  CHECK(source.config() == config());
  CHECK(source.dtype() == "float32");
  for (auto const& shape : mpt::hf::shapes_of(config())) {
    auto const& [name, extents] = shape;
    CAPTURE(shape.name);
    CHECK(source.shape_of(name) == extents);
    std::vector<float> two(2);
    source.read(name, 1, std::span(two));
    CHECK(two == std::vector<float>{element(name, 1), element(name, 2)});
  }
  parallel::host::device device;
  mpt::model<float> net(config());
  parallel::train::weights<float> const weights(net, device);
  source.load(weights, device);
  std::size_t seen = 0;
  weights.for_each([&](auto const& parameter, auto values) {
    CAPTURE(parameter.name);
    CHECK(values[0] == element(parameter.name, 0));
    CHECK(values.back() == element(parameter.name, std::ssize(values) - 1));
    ++seen;
  });
  CHECK(seen == mpt::hf::shapes_of(config()).size());
}

TEST_CASE("model source: a Hugging Face folder, a checkpoint and a folder of them are one model") {
  test::temporary_folder const folder;
  write(folder / "hub", config(), config());
  mpt::model_source const hub(folder / "hub");
  check(hub);
  CHECK(hub.path() == folder / "hub");
  CHECK(hub.tokenizer().empty());

  auto const checkpoint = mpt::import_hugging_face(hub, folder / "run", {});
  mpt::model_source const direct(checkpoint);
  check(direct);
  CHECK(direct.path() == checkpoint);
  mpt::model_source const latest(folder / "run");
  check(latest);
  CHECK(fs::equivalent(latest.path(), checkpoint));
}

TEST_CASE("model source: the tokenizer of a Hugging Face folder is found") {
  test::temporary_folder const folder;
  write(folder / "hub", config(), config());
  test::write_all(folder / "hub" / "tokenizer.json", "{}");
  CHECK(mpt::model_source(folder / "hub").tokenizer() == (folder / "hub").string());
}

TEST_CASE("model source: a folder without a model, and tensors of other shapes, are refused") {
  test::temporary_folder const folder;
  CHECK(test::contains(test::message_of([&] { mpt::model_source const m(folder.path()); }),
                       "is neither a checkpoint, nor a folder of checkpoints, nor a Hugging Face "
                       "folder with config.json"));
  std::ofstream(folder / ".metadata") << "x";
  CHECK(test::contains(test::message_of([&] { mpt::model_source const m(folder / ".metadata"); }),
                       ".metadata: is no model; give"));
  CHECK(test::contains(test::message_of([&] { mpt::model_source const m(folder.path()); }),
                       "is a sharded checkpoint of Composer"));
  auto other = config();
  other.vocab_size = 12;
  write(folder / "hub", config(), other);
  mpt::model_source const source(folder / "hub");
  parallel::host::device device;
  mpt::model<float> net(config());
  parallel::train::weights<float> const weights(net, device);
  CHECK(test::contains(test::message_of([&] { source.load(weights, device); }),
                       "\"transformer.wte.weight\" has shape [12, 8], expected [11, 8]"));
  CHECK(test::contains(test::message_of([&] { (void)source.shape_of("absent"); }), "absent"));
}

TEST_CASE("model source: NaN and infinite weights are refused") {
  test::temporary_folder const folder;
  std::vector<hf::named_shape> const shapes = mpt::hf::shapes_of(config());
  for (float const bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    hf::hf_export(folder / "hub", shapes,
                  [&](std::string const& name, index, std::span<float> out) {
                    std::ranges::fill(out, 0.5F);
                    if (name == "transformer.wte.weight") out.back() = bad;
                  },
                  {.type = hf::precision::fp32,
                   .config = mpt::to_hf_json(config(), "float32"),
                   .existing = parallel::checkpoint::if_exists::replace});
    mpt::model_source const source(folder / "hub");
    std::vector<float> values(88);
    CHECK(test::contains(
        test::message_of([&] { source.read("transformer.wte.weight", 0, std::span(values)); }),
        "hub: transformer.wte.weight holds values that are NaN or infinite"));
    CHECK_NOTHROW(source.read("transformer.wte.weight", 0, std::span(values).first(87)));
    CHECK(test::contains(
        test::message_of([&] { (void)mpt::import_hugging_face(source, folder / "run", {}); }),
        "NaN or infinite"));
    for (auto const& entry : fs::directory_iterator(folder / "run"))  // records the last writer
      CHECK(entry.path().filename().native().starts_with(".lock-"));
  }
}

}  // namespace model_source_test
