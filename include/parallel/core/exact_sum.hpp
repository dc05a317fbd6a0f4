// exact_sum: a sum of doubles without rounding. It has the same bits for any order of the addends
// and on any layout.
//
// The sum is a fixed-point number wide enough for every double (Kulisch, "Computer Arithmetic and
// Validity", 2012, chapter 8). Its digits of 32 bits are stored in signed 64-bit integers, so
// carries can wait for 2^30 additions, and the sum over ranks is a sum of integers. Cost: some ten
// instructions per addend, 568 bytes.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include <parallel/core/config.hpp>

namespace parallel {

class exact_sum {
 public:
  static constexpr std::size_t digit_count = 71;

  /// The magnitude of a finite double: three digits of 32 bits, of which the first is digit
  /// `lowest_digit` of the sum.
  struct addend {
    std::size_t lowest_digit;
    std::int64_t digits[3];
  };
  [[nodiscard]] PARALLELLM_HOST_DEVICE static addend split(double value) {
    auto const word = __builtin_bit_cast(std::uint64_t, value);
    std::uint64_t const exponent_field =
        (word >> 52) & 0x7ffU;  // 0: a subnormal number, scaled like 1
    std::uint64_t const fraction = word & 0xfffffffffffffU;
    std::uint64_t const mantissa =
        exponent_field == 0 ? fraction : fraction | std::uint64_t{1} << 52;
    auto const shift =
        static_cast<unsigned>((exponent_field == 0 ? 1 : exponent_field) + offset - 1075);
    unsigned const bits = shift % 32;
    std::uint64_t const low = mantissa << bits;
    return {shift / 32,
            {static_cast<std::int64_t>(low & 0xffffffffU), static_cast<std::int64_t>(low >> 32),
             bits == 0 ? 0 : static_cast<std::int64_t>(mantissa >> (64 - bits))}};
  }

  void add(double value) {
    if (!std::isfinite(value)) {
      special_ += value;  // infinities and NaN are summed by ordinary addition
      return;
    }
    addend const parts = split(value);
    for (std::size_t i = 0; i < 3; ++i)
      digits_[parts.lowest_digit + i] += std::signbit(value) ? -parts.digits[i] : parts.digits[i];
    if (++pending_ == std::int64_t{1} << 30) carry();
  }

  /// Adds another sum.
  void add(exact_sum other) {
    other.carry();
    add(other.digits_, other.special_);
  }
  /// Adds a sum that is given by its digits() and special(). Digits must be below 2^62.
  PARALLELLM_HOST_DEVICE void add(std::int64_t const* digits, double special) {
    carry();
    for (std::size_t i = 0; i < digit_count; ++i) digits_[i] += digits[i];
    special_ += special;
    carry();
  }

  /// The digits, to be summed over ranks (fewer than 2^30) element by element.
  [[nodiscard]] std::span<std::int64_t> digits() {
    carry();
    return digits_;
  }
  /// The sum of the addends that are not finite (infinity or NaN); 0 if there are none. It is to be
  /// summed over ranks, too.
  [[nodiscard]] double& special() { return special_; }

  /// The sum as a double. It depends on the exact sum only and is within one unit in the last place
  /// of it.
  [[nodiscard]] double value() {
    if (special_ != 0) return special_;
    carry();
    // The loop gives all digits the sign of the highest one.
    std::size_t top = digit_count;
    while (top > 0 && digits_[top - 1] == 0) --top;
    if (top == 0) return 0.0;
    bool const negative = digits_[top - 1] < 0;
    double out = 0;
    std::int64_t borrow = 0;
    for (std::size_t i = 0; i < digit_count; ++i) {
      std::int64_t digit = (negative ? -digits_[i] : digits_[i]) + borrow;
      borrow = 0;
      if (digit < 0 && i + 1 < digit_count) {
        digit += std::int64_t{1} << 32;
        borrow = -1;
      }
      if (digit != 0)
        out += std::ldexp(static_cast<double>(digit), static_cast<int>(i) * 32 - offset);
    }
    return negative ? -out : out;
  }

 private:
  static constexpr int offset = 1152;  // the lowest digit stands for 2^-1152

  /// Brings every digit but the highest into [0, 2^32). The highest digit keeps the sign.
  PARALLELLM_HOST_DEVICE void carry() {
    for (std::size_t i = 0; i + 1 < digit_count; ++i) {
      std::int64_t const overflow = digits_[i] >> 32;
      digits_[i] -= overflow << 32;
      digits_[i + 1] += overflow;
    }
    pending_ = 0;
  }

  std::int64_t digits_[digit_count] = {};
  std::int64_t pending_ = 0;  // additions since the last carry
  double special_ = 0;
};

}  // namespace parallel
