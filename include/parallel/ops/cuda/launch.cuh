// See parallel/device/cuda/launch.cuh.
#pragma once

#include <parallel/device/cuda/launch.cuh>
