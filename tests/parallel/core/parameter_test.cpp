#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/core/parameter.hpp>

namespace parameter_test {
namespace {

using parallel::bf16;
using parallel::initial_values;
using parallel::initializer;
using parallel::parameter;

std::vector<initializer> const kinds = {parallel::constant_init{2.5F}, parallel::normal_init{0.02F},
                                        parallel::uniform_init{-3.0F, 5.0F}};

template <class T>
std::vector<T> values(std::size_t count, parallel::index begin, initializer const& kind,
                      std::uint64_t seed = 1, std::string const& name = "transformer.wte.weight") {
  std::vector<T> out(count);
  initial_values(std::span<T>(out), name, kind, seed, begin);
  return out;
}

TEST_CASE("any slice of the initial values equals that part of the whole") {
  for (auto const& kind : kinds) {
    auto const whole = values<float>(1000, 0, kind);
    for (std::size_t const begin : {0, 1, 2, 3, 5, 31, 500, 998, 999, 1000})
      for (std::size_t const count : {0, 1, 2, 3, 4, 7, 64, 499}) {
        if (begin + count > whole.size()) continue;
        auto const slice = values<float>(count, static_cast<parallel::index>(begin), kind);
        CHECK(std::equal(slice.begin(), slice.end(),
                         whole.begin() + static_cast<std::ptrdiff_t>(begin)));
      }
  }
}

TEST_CASE("initial values of bf16 are those of float, rounded") {
  for (auto const& kind : kinds) {
    auto const wide = values<float>(500, 7, kind);
    auto const narrow = values<bf16>(500, 7, kind);
    for (std::size_t i = 0; i < wide.size(); ++i) CHECK(narrow[i] == bf16(wide[i]));
  }
}

TEST_CASE("seed and name select the values") {
  initializer const kind = parallel::normal_init{1.0F};
  auto const base = values<float>(16, 0, kind);
  CHECK(values<float>(16, 0, kind) == base);
  CHECK(values<float>(16, 0, kind, 2) != base);
  CHECK(values<float>(16, 0, kind, 1, "transformer.wpe.weight") != base);
}

TEST_CASE("initial values follow their distribution") {
  constexpr std::size_t count = 100000;
  for (float const value : values<float>(100, 0, parallel::constant_init{2.5F}))
    CHECK(value == 2.5F);

  double sum = 0.0;
  double squares = 0.0;
  for (float const value : values<float>(count, 0, parallel::normal_init{0.02F})) {
    sum += double{value};
    squares += double{value} * double{value};
  }
  CHECK(std::fabs(sum / count) < 5 * 0.02 / std::sqrt(count));
  CHECK(std::fabs(squares / count / 0.0004 - 1.0) < 5 * std::sqrt(2.0 / count));

  sum = 0.0;
  for (float const value : values<float>(count, 0, parallel::uniform_init{-3.0F, 5.0F})) {
    CHECK_MESSAGE((value > -3.0F && value < 5.0F), value);
    sum += double{value};
  }
  CHECK(std::fabs(sum / count - 1.0) < 5 * 8.0 / std::sqrt(12.0 * count));
}

TEST_CASE("a parameter has a name, extents and, once bound, values and gradients") {
  parameter<bf16, 2> weight("ffn.up_proj.weight", {3, 4});
  CHECK(weight.present());
  CHECK(weight.name == "ffn.up_proj.weight");
  CHECK(weight.size() == 12);
  CHECK(weight.value().data() == nullptr);
  CHECK(weight.value().extents() == parallel::shape<2>{3, 4});
  std::vector<bf16> memory(12);
  std::vector<float> gradients(12);
  weight.data = memory.data();
  weight.gradient_data = gradients.data();
  CHECK(weight.value().data() == memory.data());
  CHECK(&weight.gradient()(2, 3) == &gradients[11]);
}

TEST_CASE("a parameter without extents is absent and holds nothing") {
  parameter<float, 1> const bias;
  CHECK_FALSE(bias.present());
  CHECK(bias.size() == 0);
  CHECK(bias.value().empty());
  CHECK(bias.gradient().empty());
}

}  // namespace
}  // namespace parameter_test
