"""The preset dictionary for deflate: text that most headers contain. Part of the format, fixed within a version.

It keeps the header of a small network short.
"""

_WORDS = (
    '"stored":"bfloat16","stored":"float16","error":{"max":"rms":},"stored":"int8","same":'
    '"options":{"sgd","adamw","momentum":0.9,"weight_decay":0.0005,"lr_policy":"cosine","delta":0.05,'
    '"warmup_epochs":10,"augment":"resized-crop-flip","augment":"crop-flip","threads":1,"steps_per_epoch":1000,'
    '"overrides":{"epochs":10},"overrides":{"sparsity":0.9,"batch_size":128'
    '"dataset":"imagenet","dataset":"cifar10","dataset":"digits","network":"resnet50","vgg16","conv6","dense"'
)
_ABOUT = (
    '{"recipe":{"name":"mnist-fc","dataset":"mnist","network":"fc","training":{"epochs":50,"batch_size":60,'
    '"optimizer":"adam","lr":0.0012,"weight_decay":0.0,"momentum":0.0,"nesterov":false,"lr_policy":"constant",'
    '"delta":0.0,"warmup_epochs":0},"pruning":{"sparsity":0.97,"beta":0.5},"pruning":{"alpha":98.0,"beta":0.5,"gamma":5.0}},'
    '"metrics":{"stage":"asni-2","stage":"asni-1","seed":0,"epochs":50,"steps":50000,"accuracy":96.8,"nonzeros":8330,'
    '"sparsity":0.9702,"total_sparsity":0.9687,"seconds":100.0}}'
)
_NAMES = (
    '"name":"fc.weight","name":"conv1.weight","name":"layer1.0.downsample.0.weight","name":"bn1.num_batches_tracked",'
    '"dtype":"int64","shape":[],"sparse":false},{"name":"layer1.0.bn1.running_var","dtype":"float32","shape":[256],'
    '"sparse":false},{"name":"layer1.0.conv1.weight","dtype":"bfloat16","dtype":"float64","dtype":"float16",'
    '{"name":"features.conv1.weight","dtype":"float32","shape":[64,3,3,3],"sparse":true},'
    '{"name":"features.conv1.bias","dtype":"float32","shape":[128],"sparse":false},'
    '{"name":"classifier.linear1.weight","dtype":"float32","shape":[512,512,3,3],"sparse":true},'
    '{"name":"linear1.bias","dtype":"float32","shape":[300],"sparse":false},'
)
_HEADERS = (
    '{"mode":"int8",{"mode":"half",{"mode":"exact","network":{},"network":{"name":"conv6","shape":[3,32,32],'
    '"network":{"name":"resnet50","shape":[3,224,224],"classes":1000},"tensors":'
    '{"mode":"amenable","network":{"name":"fc","shape":[1,28,28],"classes":10},"tensors":['
    '{"name":"linear1.weight","dtype":"float32","shape":[300,784],"sparse":true},'
    '{"name":"linear2.weight","dtype":"float32","shape":[100,300],"sparse":true},'
    '{"name":"linear3.weight","dtype":"float32","shape":[10,100],"sparse":true}],'
    '"about":true,"content":,"about":false,"content":1234567890,"sections":['
)
DICTIONARY = (_WORDS + _ABOUT + _NAMES + _HEADERS).encode()
