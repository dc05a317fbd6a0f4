// signature: what a rank is about to do, small enough to be compared with every other rank.
//
// A mismatch of collectives is the classic hang: one rank reduces five numbers, another gathers
// three. Ranks that exchange signatures first turn it into one sentence (agreement.hpp) that names
// the call sites, the ranks and what differs. Trivially copyable, 256 bytes, so that it travels as
// it is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include <parallel/comm/operation.hpp>
#include <parallel/core/hash.hpp>

namespace parallel {

/// An operation without its pointers, with its place in the order of the communicator's calls.
struct signature {
  operation_kind kind = operation_kind::barrier;
  dtype type = dtype::u8;
  reduction combine = reduction::sum;
  std::uint8_t reserved = 0;
  std::int32_t peer = -1;
  std::int32_t tag = 0;
  std::uint32_t line = 0;
  std::uint64_t count = 0;
  std::uint64_t sequence = 0;
  /// Hash of the whole path, since `file` may be cut.
  std::uint64_t file_hash = 0;
  /// The axis of the communicator ("tensor"), closed by a zero; empty: the whole world.
  std::array<char, 24> axis = {};
  /// The end of the file's path, closed by a zero.
  std::array<char, 192> file = {};

  [[nodiscard]] std::string_view axis_name() const { return axis.data(); }

  [[nodiscard]] std::string_view file_name() const {
    std::string_view const whole(file.data(), file.size());
    return whole.substr(0, whole.find('\0'));
  }
};
static_assert(sizeof(signature) == 256 && std::is_trivially_copyable_v<signature>);

/// The signature of `op` as the `sequence`-th call of a communicator along `axis`.
[[nodiscard]] inline signature signature_of(operation const& op, std::uint64_t sequence,
                                            std::string_view axis = {}) {
  if (op.on_behalf_of != nullptr) {
    signature out = *op.on_behalf_of;
    out.sequence = sequence;
    return out;
  }
  signature out{.kind = op.kind,
                .type = op.type,
                .combine = op.combine,
                .peer = op.peer,
                .tag = op.tag,
                .line = op.where.line(),
                .count = op.count,
                .sequence = sequence};
  std::string_view path = op.where.file_name();
  out.file_hash = fnv1a(path);
  if (path.size() >= out.file.size()) path.remove_prefix(path.size() - out.file.size() + 1);
  if (op.kind == operation_kind::group) {
    std::uint32_t hash = 0x811c9dc5U;  // of the parts, in the place of a tag
    for_each_part(op, [&](operation const& part) {
      for (auto const word :
           {static_cast<std::uint64_t>(part.kind), static_cast<std::uint64_t>(part.type),
            static_cast<std::uint64_t>(part.combine), static_cast<std::uint64_t>(part.peer + 1),
            static_cast<std::uint64_t>(part.count)})
        hash = static_cast<std::uint32_t>((hash ^ (word ^ word >> 32)) * 0x01000193U);
    });
    out.tag = static_cast<std::int32_t>(hash);
  }
  path.copy(out.file.data(), out.file.size() - 1);
  axis.copy(out.axis.data(), out.axis.size() - 1);
  return out;
}

/// "all_reduce(sum) of 5 f32 over tensor at step.cpp:31".
[[nodiscard]] inline std::string describe(signature const& what) {
  if (what.kind == operation_kind::split) return concat("split into color ", what.peer);
  if (what.kind == operation_kind::agreement) return "agreement on what comes next";
  std::string out(name_of(what.kind));
  if (combines(what.kind)) out += concat('(', name_of(what.combine), ')');
  if (what.kind == operation_kind::group)
    out += concat(" of collectives of ", what.count, " bytes");
  else if (what.kind != operation_kind::barrier)
    out += concat(" of ", what.count, ' ', name_of(what.type));
  if (what.kind == operation_kind::broadcast) out += concat(" from root ", what.peer);
  if (what.kind == operation_kind::send) out += concat(" to rank ", what.peer, ", tag ", what.tag);
  if (what.kind == operation_kind::recv)
    out += concat(" from rank ", what.peer, ", tag ", what.tag);
  if (what.axis[0] != '\0') out += concat(" over ", what.axis_name());
  std::string_view name = what.file_name();
  if (auto const slash = name.rfind('/'); slash != std::string_view::npos)
    name.remove_prefix(slash + 1);
  return out + concat(" at ", name, ':', what.line);
}

[[nodiscard]] inline std::string describe(operation const& op) {
  return describe(signature_of(op, 0));
}

}  // namespace parallel
