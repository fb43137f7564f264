# Listed once: for the library that nvcc compiles, and for the emulator of the tests.
set(STEPCAST_KERNEL_SOURCES
  attention.cu attention_backward.cu attention_plain.cu context.cu cross_entropy.cu
  dropout.cu eight_bit.cu elementwise.cu embedding.cu experts.cu heads.cu lamb.cu latent.cu norm.cu norm_backward.cu
  norm_plain.cu optimizer.cu reduce.cu shared_heads.cu)
