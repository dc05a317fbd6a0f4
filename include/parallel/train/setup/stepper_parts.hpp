// stepper_parts: the message of the compiler where a stepper is given a part that lacks a call: one
// sentence, without the errors that would follow.
#pragma once

#include <type_traits>

#include <parallel/comm/concepts.hpp>
#include <parallel/device/concepts.hpp>
#include <parallel/device/meta/device.hpp>
#include <parallel/train/process_groups.hpp>
#include <parallel/train/stepper_options.hpp>
#include <parallel/train/trainable.hpp>
#include <parallel/zero/update.hpp>

namespace parallel::train {

namespace detail {

template <class Device>
struct require_device {
  static_assert(device<Device>,
                "the device lacks what parallel::device (parallel/device/concepts.hpp) asks for");
  static constexpr bool value = device<Device>;
};
template <class Optimizer, class Stream, class T>
struct require_optimizer {
  static_assert(zero::updates_units<Optimizer, Stream, T>,
                "the optimizer lacks what parallel::optimizer (parallel/optim/concepts.hpp) asks "
                "for: state_names(), and update() of ranges of the model's elements");
  static constexpr bool value = zero::updates_units<Optimizer, Stream, T>;
};

}  // namespace detail

/// The parts that a stepper can be made of; for another one, the compiler says what it lacks.
template <class Model, class Device, class Comm, class Optimizer>
concept checked_parts = detail::require_device<Device>::value && checked_communicator<Comm> &&
    checked_model<Model, typename Device::stream_type> && checked_model<Model, meta::stream> &&
    detail::require_optimizer<Optimizer, typename Device::stream_type, element_of<Model>>::value;

/// The same condition without messages.
template <class Model, class Device, class Comm, class Optimizer>
concept stepper_parts = device<Device> && has_split<Comm> &&
    trainable<Model, typename Device::stream_type> && trainable<Model, meta::stream> &&
    zero::updates_units<Optimizer, typename Device::stream_type, typename Model::element>;

template <class Model, class Device, class Comm, class Optimizer>
class stepper;

/// The specialisation for parts that do not meet the requirements: its only purpose is the
/// compiler's error message.
template <class Model, class Device, class Comm, class Optimizer>
requires(
    !stepper_parts<Model, Device, Comm, Optimizer>) class stepper<Model, Device, Comm, Optimizer> {
 public:
  using message = std::bool_constant<checked_parts<Model, Device, Comm, Optimizer>>;

  template <class Ranks, class Optimizers>
  stepper(Model&, Device&, Ranks&, Optimizers const&, stepper_options const&) {}
};

}  // namespace parallel::train
