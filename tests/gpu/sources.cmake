# Listed once: for the library that nvcc compiles, and for the emulator.
set(STEPCAST_KERNEL_SOURCES
  attention.cu attention_backward.cu attention_fp32.cu cross_entropy.cu elementwise.cu embedding.cu
  heads.cu norm.cu optimizer.cu reduce.cu)
set(STEPCAST_KERNEL_TESTS
  device_array.cpp attention_test.cpp elementwise_test.cpp ends_test.cpp heads_test.cpp
  norm_test.cpp optimizer_test.cpp)
