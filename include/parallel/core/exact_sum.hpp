// exact_sum: a sum of doubles without rounding, so the same in any order and on any layout.
//
// Kulisch, "Arithmetic and Validity", 2012, chapter 8: a fixed-point number wide enough for every
// double. Digits of 32 bits lie in signed 64-bit integers, so carries can wait for 2^30 additions,
// and the sum over ranks is a sum of integers. Cost: some ten instructions an addend, 568 bytes.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

namespace parallel {

class exact_sum {
 public:
  void add(double value) {
    if (value == 0) return;
    if (!std::isfinite(value)) {
      special_ += value;  // infinities and NaN stay what they are
      return;
    }
    int exponent = 0;
    double const fraction = std::frexp(value, &exponent);  // in ±[1/2, 1)
    auto const mantissa = static_cast<std::int64_t>(std::ldexp(fraction, 53));
    int const shift = exponent - 53 + offset;  // of the mantissa's lowest bit
    bool const negative = mantissa < 0;
    auto const magnitude = static_cast<std::uint64_t>(negative ? -mantissa : mantissa);
    auto const place = static_cast<std::size_t>(shift / 32);
    int const bits = shift % 32;
    auto const put = [&](std::size_t at, std::uint64_t digit) {
      auto const amount = static_cast<std::int64_t>(digit & 0xffffffffU);
      digits_[at] += negative ? -amount : amount;
    };
    put(place, magnitude << bits);
    put(place + 1, bits == 0 ? magnitude >> 32 : magnitude >> (32 - bits));
    put(place + 2, bits == 0 ? 0 : magnitude >> (64 - bits));
    if (++pending_ == std::int64_t{1} << 30) carry();
  }

  /// The sum of both.
  void add(exact_sum other) {
    other.carry();
    carry();
    for (std::size_t i = 0; i < digits_.size(); ++i) digits_[i] += other.digits_[i];
    special_ += other.special_;
    carry();
  }

  /// Digits to be summed over ranks (fewer than 2^30), element by element.
  [[nodiscard]] std::span<std::int64_t> digits() {
    carry();
    return digits_;
  }
  /// To be summed over ranks too: 0, or what no finite sum can tell.
  [[nodiscard]] double& special() { return special_; }

  /// The sum as a double: a function of the exact sum, within one unit in the last place of it.
  [[nodiscard]] double value() {
    if (special_ != 0) return special_;
    carry();
    // digits of one sign: the highest one's
    std::size_t top = digits_.size();
    while (top > 0 && digits_[top - 1] == 0) --top;
    if (top == 0) return 0.0;
    bool const negative = digits_[top - 1] < 0;
    auto magnitude = digits_;
    if (negative)
      for (auto& digit : magnitude) digit = -digit;
    std::int64_t borrow = 0;
    for (auto& digit : magnitude) {
      digit += borrow;
      borrow = 0;
      if (digit < 0 && &digit != &magnitude.back()) {
        digit += std::int64_t{1} << 32;
        borrow = -1;
      }
    }
    double out = 0;
    for (std::size_t i = 0; i < magnitude.size(); ++i)
      if (magnitude[i] != 0)
        out += std::ldexp(static_cast<double>(magnitude[i]), static_cast<int>(i) * 32 - offset);
    return negative ? -out : out;
  }

 private:
  static constexpr int offset = 1152;  // the lowest digit stands for 2^-1152

  /// Leaves digits in [0, 2^32) but the highest, which keeps the sign.
  void carry() {
    for (std::size_t i = 0; i + 1 < digits_.size(); ++i) {
      std::int64_t const over = digits_[i] >> 32;
      digits_[i] -= over << 32;
      digits_[i + 1] += over;
    }
    pending_ = 0;
  }

  std::array<std::int64_t, 71> digits_{};
  std::int64_t pending_ = 0;  // additions since the last carry
  double special_ = 0;
};

}  // namespace parallel
