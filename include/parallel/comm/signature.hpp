// signature: what a rank is about to do, small enough to be compared with every other rank.
//
// Mismatched collectives are the classic hang: one rank reduces five numbers, another gathers
// three. Ranks that exchange signatures first get one sentence instead (agreement.hpp) that names
// the call sites, the ranks and what differs. A signature is trivially copyable and has 256 bytes,
// so that it can be sent as it is.
//
// signature_exchange: a rendezvous of all ranks as a function object that can be called later.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/comm/operation.hpp>
#include <parallel/core/hash.hpp>

namespace parallel {

/// An operation without its pointers, with its number among the communicator's calls.
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
  /// Hash of the whole path, since `file` may be truncated.
  std::uint64_t file_hash = 0;
  /// The axis of the communicator ("tensor"), terminated by a zero; empty: the whole world.
  std::array<char, 24> axis = {};
  /// The end of the file's path, terminated by a zero.
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
  if (op.described_as != nullptr) {
    signature described = *op.described_as;
    described.sequence = sequence;
    return described;
  }
  signature described{.kind = op.kind,
                      .type = op.type,
                      .combine = op.combine,
                      .peer = op.peer,
                      .tag = op.tag,
                      .line = op.caller.line(),
                      .count = op.count,
                      .sequence = sequence};
  std::string_view path = op.caller.file_name();
  described.file_hash = fnv1a(path);
  if (path.size() >= described.file.size())
    path.remove_prefix(path.size() - described.file.size() + 1);
  if (op.kind == operation_kind::group) {
    std::uint32_t hash = 0x811c9dc5U;  // of the members, used as the tag
    for_each_member(op, [&](operation const& member) {
      for (auto const word :
           {static_cast<std::uint64_t>(member.kind), static_cast<std::uint64_t>(member.type),
            static_cast<std::uint64_t>(member.combine), static_cast<std::uint64_t>(member.peer + 1),
            static_cast<std::uint64_t>(member.count)})
        hash = static_cast<std::uint32_t>((hash ^ (word ^ word >> 32)) * 0x01000193U);
    });
    described.tag = static_cast<std::int32_t>(hash);
  }
  path.copy(described.file.data(), described.file.size() - 1);
  axis.copy(described.axis.data(), described.axis.size() - 1);
  return described;
}

/// "all_reduce(sum) of 5 f32 over tensor at step.cpp:31".
[[nodiscard]] inline std::string describe(signature const& call) {
  if (call.kind == operation_kind::split) return concat("split into color ", call.peer);
  if (call.kind == operation_kind::agreement) return "agreement on what comes next";
  std::string out(to_string(call.kind));
  if (combines(call.kind)) out += concat('(', to_string(call.combine), ')');
  if (call.kind == operation_kind::group)
    out += concat(" of collectives of ", call.count, " bytes");
  else if (call.kind != operation_kind::barrier)
    out += concat(" of ", call.count, ' ', to_string(call.type));
  if (call.kind == operation_kind::broadcast) out += concat(" from root ", call.peer);
  if (call.kind == operation_kind::send) out += concat(" to rank ", call.peer, ", tag ", call.tag);
  if (call.kind == operation_kind::recv)
    out += concat(" from rank ", call.peer, ", tag ", call.tag);
  if (call.axis[0] != '\0') out += concat(" over ", call.axis_name());
  std::string_view name = call.file_name();
  if (auto const slash = name.rfind('/'); slash != std::string_view::npos)
    name.remove_prefix(slash + 1);
  return out + concat(" at ", name, ':', call.line);
}

[[nodiscard]] inline std::string describe(operation const& op) {
  return describe(signature_of(op, 0));
}

/// Called once, with this rank's signature; returns the signatures of all ranks, by rank. Throws at
/// the deadline, naming the missing ranks. (A move-only std::function whose header is not included
/// by every file that communicates.)
class signature_exchange {
 public:
  /// `meet(signature const&)` returns a vector of signatures.
  template <class Meet>
  requires requires(Meet meet, signature const& local) { std::vector<signature>(meet(local)); }
  signature_exchange(Meet meet)  // NOLINT(google-explicit-constructor): as std::function
      : meet_(std::make_unique<model<Meet>>(std::move(meet))) {}

  std::vector<signature> operator()(signature const& local) const { return meet_->meet(local); }

 private:
  struct interface {
    virtual ~interface() = default;
    virtual std::vector<signature> meet(signature const& local) = 0;
  };
  template <class Meet>
  struct model final : interface {
    explicit model(Meet f) : function(std::move(f)) {}
    std::vector<signature> meet(signature const& local) override { return function(local); }
    Meet function;
  };

  std::unique_ptr<interface> meet_;
};

}  // namespace parallel
